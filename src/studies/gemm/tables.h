// The GEMM lab as people read it: CSV, a terminal table, and sentences.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"
#include "report/verdicts.h"

namespace ridgeline {

// One row per record: op, implementation, device, m, n, k, dtype, mode, macs, flops, io_bytes,
// arithmetic_intensity, mean_ms, median_ms, std_ms, min_ms, median_low_ms, median_high_ms,
// gflops_per_s, gb_per_s, peak_share, ceiling_share, max_error, status, error. Rows that are not
// "success" have empty numbers, never zeros.
Table gemm_csv(std::span<const Record> records);

Table gemm_summary(std::span<const Record> records);

// What the figures mean, and how far each rung is from the library.
std::vector<std::string> gemm_notes(std::span<const Record> records, Verdicts& verdicts);
std::vector<std::string> gemm_notes(std::span<const Record> records);

// Of reports.
ReportSection gemm_section(const ReportContext& context);

}  // namespace ridgeline
