// What the generate study shows: CSV, a terminal table, sentences and a report section.
#pragma once

#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

Table generate_csv(std::span<const Record> records);
Table generate_summary(std::span<const Record> records);
std::vector<std::string> generate_notes(std::span<const Record> records);
ReportSection generate_section(const ReportContext& context);

}  // namespace ridgeline
