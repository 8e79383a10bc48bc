// What the gemm study shows: CSV, a terminal table, sentences and a report section.
#pragma once

#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"
#include "report/verdicts.h"

namespace ridgeline {

// One row per record. Rows that are not "success" have empty times, never zeros.
Table gemm_csv(const RecordRefs& records);
Table gemm_summary(const RecordRefs& records);

// Notes on what the figures mean, and on how far each rung is from the library.
std::vector<std::string> gemm_notes(const RecordRefs& records, Verdicts& verdicts);

// Section of reports.
ReportSection gemm_section(const ReportContext& context);

}  // namespace ridgeline
