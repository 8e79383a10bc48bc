// What the comm study shows: CSV, a terminal table, sentences and a report section.
#pragma once

#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"
#include "report/verdicts.h"
#include "studies/comm/rank.h"

namespace ridgeline {

// One row per record. Times are of the slowest rank in each sample, but for mean_rank_ms and
// fastest_rank_ms; alpha_us, beta_gb_per_s and fit_residual are of the fit over all sizes of a
// backend, collective, dtype and number of ranks.
Table comm_csv(const RecordRefs& records);
Table comm_summary(const RecordRefs& records);

// Notes on how backends compare and how times grow with sizes and ranks.
std::vector<std::string> comm_notes(const RecordRefs& records, Verdicts& verdicts);

// Section of reports.
ReportSection comm_section(const ReportContext& context);

}  // namespace ridgeline
