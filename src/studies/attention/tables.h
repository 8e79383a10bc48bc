// What the attention study shows: CSV, terminal tables, sentences and report sections.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"
#include "report/verdicts.h"

namespace ridgeline {

// The columns that docs/records.md lists; busy times only if the device reports them. Memory is in
// MiB. Rows that are not "success" have empty numbers, never zeros.
Table attention_csv(const RecordRefs& records);

// For the terminal: medians, the interval's half-width, peak memory, error / tolerance.
Table attention_summary(const RecordRefs& records);
// What the mark beside a peak means; empty if there is none.
std::string attention_memory_note(const RecordRefs& records);

// With two implementations or more: a table for forward and one for backward, with a row per size,
// the medians of each and their speedups over the first. `implementations` sets the order; empty:
// as recorded.
std::vector<Table> attention_side_by_side(const RecordRefs& records,
                                          std::span<const std::string> implementations = {});

// The record of smallest_oom_row(); null if there is none.
const Record* smallest_oom(const RecordRefs& records);

// The results in sentences, as far as the records support them: first speedups with their verdicts
// and rows without results; then, per implementation, growth of time and memory with the length,
// the share of S x S tensors, the OOM frontier, errors against tolerances and FLOP/s; last
// host-bound rows, noise and how FLOPs are counted.
std::vector<std::string> explain_attention(const RecordRefs& records, Verdicts& verdicts);

// Sections of reports.
ReportSection attention_time_section(const ReportContext& context);
ReportSection attention_memory_section(const ReportContext& context);

}  // namespace ridgeline
