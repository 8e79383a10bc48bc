// Tables of the model study: CSV and terminal, vanilla beside compiled, and notes.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// The series: scenarios, and backward alone as a part of fwd_bwd.
inline constexpr std::array kModelSeries = {"forward", "backward", "fwd_bwd", "full_step"};

// "small context 128 mixed".
std::string model_words(const Record& record);

// One row per model: model_size, context_length, num_params, num_params_millions; for forward,
// fwd_bwd and full_step the medians of vanilla and compiled and the speedup (forward_vanilla_ms,
// forward_compiled_ms, forward_speedup, ...); then, for the largest scenario and each mode, peak
// memory measured and predicted, tokens/s, MFU and launches; the same times for backward alone,
// which is a part of fwd_bwd; for all four and each mode mean and standard deviation
// (backward_vanilla_mean_ms, backward_vanilla_std_ms, ...); compile seconds, precision, batch size,
// device, status and error; then, for each of the four, the GPU's busy times, their ratio and the
// modes that are host-bound; then, with a scaled loss, the final scale and the skipped steps; at
// the end, the same figures of each other mode that was run. Records of other machines or settings
// have rows of their own. What was not measured is empty, never zero.
Table model_csv(const RecordRefs& records);

// For the terminal: one row per model and scenario, and one for backward alone. A cell without a
// time holds the status. If records have them, there are columns for busy times and their ratio,
// and for the loss scale and skipped steps.
Table model_summary(const RecordRefs& records);

// The effect of missing warm-ups, for records that had none: the first steps beside mean and
// median, and what the first step spent its time on. One row per model, scenario and mode.
Table model_first_steps(const RecordRefs& records);
// The same in sentences, for the scenario of each row whose first step exceeds the median most.
std::vector<std::string> model_first_step_notes(const RecordRefs& records);

// Conventions of the figures, and failures, one line each.
std::vector<std::string> model_notes(const RecordRefs& records);

ReportSection model_section(const ReportContext& context);

}  // namespace ridgeline
