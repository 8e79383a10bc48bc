// What the generate study shows: CSV, a terminal table, sentences and a report section.
#pragma once

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

Table generate_csv(const RecordRefs& records);
Table generate_summary(const RecordRefs& records);
std::vector<std::string> generate_notes(const RecordRefs& records);
ReportSection generate_section(const ReportContext& context);

}  // namespace ridgeline
