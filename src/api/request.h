// One attention call of the C interface, checked: tensors in the order of its node, options, and
// the key under which it is prepared.
#pragma once

#include <ridgeline/ridgeline.h>

#include <array>
#include <span>

#include "api/context.h"
#include "api/score_graph.h"
#include "api/tensor_check.h"

namespace ridgeline {

// A short list without memory of its own.
class ClaimedTensors {
 public:
  void add(const ClaimedTensor& tensor) { list_[count_++] = tensor; }
  std::span<const ClaimedTensor> span() const { return {list_.data(), count_}; }
  std::span<ClaimedTensor> span() { return {list_.data(), count_}; }
  const ClaimedTensor& operator[](size_t i) const { return list_[i]; }
  size_t size() const { return count_; }

 private:
  std::array<ClaimedTensor, 6 + kMaxScoreOperands> list_;
  size_t count_ = 0;
};

// Calls are told apart by the remainders of their addresses by this: kernels load whole vectors
// where they can.
inline constexpr uintptr_t kVectorBytes = 16;

struct Request {
  Op op = Op::attention;
  AttentionSpec spec = {};                   // without a function
  const rl_score_function* score = nullptr;  // the caller's; may be null
  ClaimedTensors inputs, outputs;
  Shape rows = {};                // of the log-sum-exp
  bool keeps_log_sum_exp = true;  // false: it goes to the workspace

  CallKey key() const;
  AttentionCall call() const;
  // What the workspace begins with; pieces of it begin aligned.
  Bytes log_sum_exp_room() const;
};

// Throws what is wrong with the parameters.
Request read_request(const rl_attention_forward_params& params, const TensorRules& rules);
Request read_request(const rl_attention_backward_params& params, const TensorRules& rules);

}  // namespace ridgeline
