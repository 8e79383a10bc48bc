// The transformer study as people read it: CSV and a terminal table, vanilla beside compiled.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One row per model: model_size, context_length, num_params, num_params_millions; for forward,
// fwd_bwd and full_step the medians of vanilla and compiled and the speedup (forward_vanilla_ms,
// forward_compiled_ms, forward_speedup, ...); then, of the largest scenario and of each mode, peak
// memory measured and predicted, tokens/s and MFU; backward alone in the same way, a part of
// fwd_bwd; of all four and of each mode mean and standard deviation (backward_vanilla_mean_ms,
// backward_vanilla_std_ms, ...); compile seconds, launches, precision, batch size, status and
// error; at the end, for each scenario, the GPU's busy times, their ratio and the modes that are
// host-bound, and of a scaled loss the scale after the samples and the steps that were skipped.
// What was not measured is empty, never zero.
Table model_csv(std::span<const Record> records);

// For the terminal: one row per model and scenario, and one for backward alone. A cell that has no
// time says why. Where records tell busy times, they and the ratio of kernels stand beside the
// speedup, as do the scale of a loss that is scaled and the steps that were skipped.
Table model_summary(std::span<const Record> records);

// What missing warm-up does: the first steps beside mean and median, and what the first spent its
// time on, of records that had none. One row per model, scenario and mode.
Table model_first_steps(std::span<const Record> records);
// The same in sentences, of the scenario of each row whose first step took longest beside the
// others.
std::vector<std::string> model_first_step_notes(std::span<const Record> records);

// Conventions of the figures, and what went wrong, one line each.
std::vector<std::string> model_notes(std::span<const Record> records);

// Of reports.
ReportSection model_section(const ReportContext& context);

}  // namespace ridgeline
