// Compares computed attention with the fp64 oracle: whole tensors when short, sampled rows when
// long.
#pragma once

#include <functional>

#include "kernels/reference/attention_oracle.h"
#include "kernels/tensor_view.h"
#include "measure/record.h"
#include "models/attention.h"

namespace ridgeline {

// Up to this length every row is compared.
inline constexpr int64_t kWholeTensorLimit = 2048;

// `tensor` gives a computed or input tensor [batch * heads, S, d] by its name in the workload's
// graph.
Verification verify_attention(const AttentionConfig& config,
                              const std::function<TensorView(const char* name)>& tensor,
                              uint64_t seed, const RangeRunner& run);

// The first tensor whose error is above its tolerance, in words; empty: all are right.
std::string first_wrong_tensor(const Verification& verification);

}  // namespace ridgeline
