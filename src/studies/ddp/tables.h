// What the ddp study shows: CSV, a terminal table, sentences and a report section.
#pragma once

#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"
#include "report/verdicts.h"

namespace ridgeline {

// One row per record. batch_size, threads, bytes sent and memory (in MiB) are per rank; step_ms is
// the median of the slowest rank, predicted_off is predicted_step_ms / step_ms - 1, and compute_ms
// and compute_alone_ms are a step without communication, on all ranks and on one alone.
Table ddp_csv(const RecordRefs& records);
Table ddp_summary(const RecordRefs& records);

// Notes: strategies against naive, hidden communication, predictions, and equal parameters.
std::vector<std::string> ddp_notes(const RecordRefs& records, Verdicts& verdicts);

// Predicted / measured time of a step, less 1; empty if one of them is missing.
std::optional<double> predicted_off(const Record& record);
// A key that rows share which differ only in their strategy.
std::string ddp_key(const Record& record);
// The same in words: "small fp32 vanilla, context 64, batch 4, 2 ranks of 1 thread by gloo".
std::string ddp_place(const Record& record);
std::string strategy_text(const Record& record);  // "bucketed 25 MB"

ReportSection ddp_section(const ReportContext& context);

}  // namespace ridgeline
