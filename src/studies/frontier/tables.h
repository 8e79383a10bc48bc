// What the frontier study shows: CSV, a terminal table, sentences and a report section.
#pragma once

#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

Table frontier_csv(const RecordRefs& records);
Table frontier_summary(const RecordRefs& records);

// Notes on how much further one implementation reaches than another, and on wrong predictions.
std::vector<std::string> frontier_notes(const RecordRefs& records);

// Section of reports.
ReportSection frontier_section(const ReportContext& context);

}  // namespace ridgeline
