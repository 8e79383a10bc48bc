// The attention study as people read it: CSV, terminal tables, side-by-side tables, sentences.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"
#include "report/verdicts.h"

namespace ridgeline {

// Always the same columns, which docs/records.md lists. Memory is in MiB. Rows that are not
// "success" have empty numbers, never zeros.
Table attention_csv(std::span<const Record> records);

// For the terminal: medians, the interval's half-width, peak memory, error in parts of its
// tolerance.
Table attention_summary(std::span<const Record> records);
// What a mark beside peak memory means; empty: there is none.
std::string attention_memory_note(std::span<const Record> records);

// With two implementations or more: one table for forward and one for backward, a row per size, the
// medians of each and their speedups over the first. `implementations` gives the order; empty: as
// recorded.
std::vector<Table> attention_side_by_side(std::span<const Record> records,
                                          std::span<const std::string> implementations = {});

// The out-of-memory row with the least predicted peak, then sequence, then width; null: there is
// none.
const Record* smallest_oom(std::span<const Record> records);

// What was seen, in sentences; each only if the records support it. First who is faster (by the
// verdict engine) and what is no result; then, by implementation, growth
// of time and memory with the sequence, what S x S tensors hold, the OOM frontier, errors against
// tolerances, GFLOP/s; last how well it is known and how FLOPs are counted.
std::vector<std::string> explain_attention(std::span<const Record> records, Verdicts& verdicts);
std::vector<std::string> explain_attention(std::span<const Record> records);

// Of reports.
ReportSection attention_time_section(const ReportContext& context);
ReportSection attention_memory_section(const ReportContext& context);

}  // namespace ridgeline
