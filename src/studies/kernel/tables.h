// The kernel study's tables: CSV, terminal summary and notes.
#pragma once

#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One row per record and pass: implementation, batch_size, heads, seq_len, head_dim, dtype, causal,
// mode, pass, backward (the algorithm), mean_ms, median_ms, std_ms, min_ms, max_ms, p95_ms, p99_ms,
// iqr_ms, median_low_ms, median_high_ms, gflops_per_s, gb_per_s, queries_per_s, peak_share,
// host_us, status, error, busy_ms, host_bound, sm_active_pct, tensor_active_pct, dram_bytes_per_s,
// utilization_source. Rows that are not "success" have empty numbers, never zeros.
Table kernel_csv(const RecordRefs& records);

// For the terminal, in microseconds.
Table kernel_summary(const RecordRefs& records);

// One line each for the conventions and modes behind the figures, and for failed rows.
std::vector<std::string> kernel_notes(const RecordRefs& records);

ReportSection kernel_section(const ReportContext& context);

}  // namespace ridgeline
