// Table, notes and chart of the precision study's trainings.
#pragma once

#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

struct TrainingRow {
  const Record* record = nullptr;
  std::vector<double> losses = {};        // NaN if a loss was not finite
  std::optional<double> loss_error = {};  // |loss - fp32's| / fp32's after the last step
  std::optional<double> loss_scale = {}, skipped_steps = {};
  std::string flushed_tensor = {};  // the gradient that loses most without a scale
  std::optional<double> flushed_share = {};
};
std::vector<TrainingRow> training_rows(const RecordRefs& records);

Table training_table(const RecordRefs& records);
std::vector<std::string> training_notes(const RecordRefs& records);
// Losses by step, one line per variant; without series if there are no such rows.
Chart training_chart(const ReportContext& context, const RecordRefs& records);

}  // namespace ridgeline
