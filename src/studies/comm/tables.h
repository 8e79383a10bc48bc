// The study of collectives as people read it: CSV, a terminal table, and sentences.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"
#include "report/verdicts.h"

namespace ridgeline {

inline constexpr const char* kCommPhase = "slowest_rank";  // the series that counts

// One row per record: backend, library, device, collective, dtype, ranks, bytes, median_ms (of the
// slowest rank in each sample, as are mean_ms, std_ms and min_ms), mean_rank_ms, fastest_rank_ms,
// algbw_gb_per_s, busbw_gb_per_s, alpha_us, beta_gb_per_s, fit_residual, max_error, launcher,
// status, error. The fit is that of all sizes of a backend, collective, dtype and number of ranks.
Table comm_csv(std::span<const Record> records);
Table comm_summary(std::span<const Record> records);

// How backends compare, and how times grow with sizes and ranks.
std::vector<std::string> comm_notes(std::span<const Record> records, Verdicts& verdicts);
std::vector<std::string> comm_notes(std::span<const Record> records);

// Of reports.
ReportSection comm_section(const ReportContext& context);

}  // namespace ridgeline
