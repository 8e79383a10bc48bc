// Models of the precision study: times, memory and loss in each precision, beside fp32.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/record_values.h"

namespace ridgeline {

struct PrecisionModelRow {
  const Record* record = nullptr;
  const Record* full = nullptr;  // the same model in fp32, or null
  std::optional<double> forward_ms = {}, backward_ms = {};
  std::optional<double> optimizer_ms = {};  // a full step minus forward and backward
  std::optional<double> peak_mib = {};
  std::optional<double> loss = {};
  std::optional<double> loss_error = {};  // |loss - fp32's| / fp32's, of the first step
};
std::vector<PrecisionModelRow> precision_model_rows(const RecordRefs& records);

// "small, context 128, compiled: mixed against fp32, by the medians: ...".
std::vector<std::string> precision_model_notes(const RecordRefs& records);

}  // namespace ridgeline
