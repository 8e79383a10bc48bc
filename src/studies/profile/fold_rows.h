// Folds read back out of a record of the profile study. Records come from files, so nothing is
// taken for granted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// What identifies a row in a CSV of both models and attention.
inline constexpr const char* kProfileSizes[] = {
    "of",      "model_size", "context_length", "batch_size", "heads",   "seq_len",
    "d_model", "causal",     "dtype",          "precision",  "scenario"};

// Of one step. What the record does not tell is empty.
struct FoldRow {
  std::string key, phase, category, scope;
  std::optional<double> kernels, invocations, total_ms, mean_us, share, flops_per_s, bytes_per_s,
      predicted_us, roof_share, prediction_error, imbalance;
};

// `by`: "phase", "category", "phase_category", "scope", "kernel". Empty: the record has none.
std::vector<FoldRow> fold_rows(const Record& record, std::string_view by);
// Those of one phase.
std::vector<FoldRow> fold_rows(const Record& record, std::string_view by, std::string_view phase);

// Among the colours of tensors: a kind of work has the same in all charts.
int category_colour(std::string_view category);

// "small context 128 batch 4 fp32 full-step", whatever the mode.
std::string profile_workload_name(const Record& record);

}  // namespace ridgeline
