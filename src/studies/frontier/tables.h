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

// Whether the next longer sequence was seen not to fit; else a longer one than found may fit.
bool is_at_its_end(const Record& record);

// Notes on how much further one implementation reaches than another, and on wrong predictions.
std::vector<std::string> frontier_notes(const RecordRefs& records);

// Section of reports.
ReportSection frontier_section(const ReportContext& context);

}  // namespace ridgeline
