// Compares computed attention with the fp64 oracle: whole tensors of short sequences, sampled rows
// of long ones.
#pragma once

#include <functional>

#include "kernels/reference/attention_oracle.h"
#include "measure/record.h"
#include "models/attention.h"

namespace ridgeline {

// Up to this length every row is compared.
inline constexpr int64_t kWholeTensorLimit = 2048;
inline constexpr int64_t kSampledRows = 24;  // of one head, of longer sequences

// The values of one head in row-major order: S x d, or S for "log_sum_exp".
using HeadReader = std::function<std::vector<double>(const char* tensor, int64_t head)>;

// Which results exist besides the output.
struct CheckedResults {
  bool log_sum_exp = false;
  bool gradients = true;  // d_q, d_k, d_v; they need the input d_output
};

// `read` returns inputs (q, k, v, d_output) and results by their names in the workload's graph.
Verification verify_attention(const AttentionConfig& config, const CheckedResults& results,
                              const HeadReader& read, uint64_t seed, const RangeRunner& run);

}  // namespace ridgeline
