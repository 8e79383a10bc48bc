// Compares computed attention with the fp64 oracle: whole tensors when short, sampled rows when
// long.
#pragma once

#include <functional>

#include "kernels/reference/attention_oracle.h"
#include "measure/record.h"
#include "models/attention.h"

namespace ridgeline {

// Up to this length every row is compared.
inline constexpr int64_t kWholeTensorLimit = 2048;
inline constexpr int64_t kSampledRows = 24;  // of one head, above it

// The values of one head in row-major order: S x d, or S for "log_sum_exp".
using HeadReader = std::function<std::vector<double>(const char* tensor, int64_t head)>;

// Which results there are besides the output.
struct CheckedResults {
  bool log_sum_exp = false;
  bool gradients = true;  // d_q, d_k, d_v; then there is an input d_output as well
};

// `read` gives inputs (q, k, v, d_output) and results by their names in the workload's graph.
Verification verify_attention(const AttentionConfig& config, const CheckedResults& results,
                              const HeadReader& read, uint64_t seed, const RangeRunner& run);

}  // namespace ridgeline
