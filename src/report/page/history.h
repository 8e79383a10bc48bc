// Saved rows over commits as a report: one chart per row and phase, which marks the changes.
#pragma once

#include <span>
#include <string>

#include "measure/history.h"
#include "report/page/document.h"

namespace ridgeline {

struct HistoryInput {
  std::span<const SavedRecord> records;
  NoiseLookup noise = {};
  std::string made_by = {}, made_at = {}, source = {};
};

ReportDocument history_report(const HistoryInput& input);

}  // namespace ridgeline
