// Reads folds from records of the profile study, which come from files: every value is checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// The columns that identify a row of a model or of attention in a CSV.
inline constexpr const char* kProfileSizes[] = {
    "of",      "model_size", "context_length", "batch_size", "heads",   "seq_len",
    "d_model", "causal",     "dtype",          "precision",  "scenario"};

// Per step; empty if the record does not have the value.
struct FoldRow {
  std::string key, phase, category, scope;
  std::optional<double> kernels, invocations, total_ms, mean_us, share, flops_per_s, bytes_per_s,
      predicted_us, roof_share, prediction_error, imbalance;
};

// `by`: "phase", "category", "phase_category", "scope", "kernel". Empty if the record has none.
std::vector<FoldRow> fold_rows(const Record& record, std::string_view by);
// Only those of one phase.
std::vector<FoldRow> fold_rows(const Record& record, std::string_view by, std::string_view phase);

// An index into the palette of tensors: a category has the same colour in all charts.
int category_colour(std::string_view category);

// "small context 128 batch 4 fp32 full-step", without the mode.
std::string profile_workload_name(const Record& record);

}  // namespace ridgeline
