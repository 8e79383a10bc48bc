// Training on several ranks as people read it: CSV, a terminal table, and sentences.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"
#include "report/verdicts.h"

namespace ridgeline {

// One row per record: strategy, backend, library, device, model_size, precision, mode, batch_size
// (of a rank), context_length, ranks, threads (of a rank), bucket_mb, step_ms (median of the
// slowest rank, with its interval), predicted_step_ms, predicted_off (over step_ms, less 1),
// compute_ms and compute_alone_ms (a step without communication, on all ranks and on one of them),
// communication_ms, exposed_ms, collectives, bytes_per_step and
// predicted_bytes_per_step (that a rank sends), peak_mb and predicted_peak_mb (of a rank, in MiB),
// parameters_hash, launcher, status, error.
Table ddp_csv(std::span<const Record> records);
Table ddp_summary(std::span<const Record> records);

// Strategies against naive, what was hidden, and whether all give the same parameters.
std::vector<std::string> ddp_notes(std::span<const Record> records, Verdicts& verdicts);
std::vector<std::string> ddp_notes(std::span<const Record> records);

// The predicted time of a step over the measured one, less 1; empty: one of them is missing.
std::optional<double> predicted_off(const Record& record);
// What rows that differ in their strategy alone share, to group them by.
std::string ddp_key(const Record& record);
// The same as people read it: "small fp32 vanilla, context 64, batch 4, 2 ranks of 1 thread by
// gloo".
std::string ddp_place(const Record& record);
std::string strategy_text(const Record& record);  // "bucketed 25 MB"

ReportSection ddp_section(const ReportContext& context);

}  // namespace ridgeline
