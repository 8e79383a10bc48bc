// Where the sums of operands' gradients lie that a gradient node leaves: in the caller's tensor if
// they are that gradient already, else in scratch memory, from where they are added up.
#pragma once

#include <vector>

#include "api/context.h"
#include "api/tensor_check.h"

namespace ridgeline {

struct OperandSums {
  size_t output;       // of the call and of its node
  TensorView sums;     // contiguous fp32
  TensorView result;   // the caller's, contiguous
  bool direct;         // both are the same memory
  int64_t offset = 0;  // in the scratch memory behind `begin`
};

struct OperandSumsPlan {
  std::vector<OperandSums> list;
  Bytes bytes;  // of all that are not direct
};

inline Bytes aligned(Bytes bytes) {
  constexpr auto kAlignment = static_cast<int64_t>(kWorkspaceAlignment);
  return {(bytes.count + kAlignment - 1) / kAlignment * kAlignment};
}

inline OperandSumsPlan operand_sums_of(const AttentionCall& call, size_t first = 3) {
  OperandSumsPlan plan;
  if (call.node.op != Op::attention_gradient) return plan;
  for (size_t i = first; i < call.node.outputs.size(); ++i) {
    const TensorType& type = call.node.outputs[i];
    const TensorView& result = call.outputs[i];
    OperandSums each{.output = i,
                     .sums = {nullptr, type.dtype, type.shape, contiguous_strides(type.shape)},
                     .result = result,
                     .direct = result.dtype == DType::f32 && result.shape == type.shape,
                     .offset = plan.bytes.count};
    if (!each.direct) plan.bytes = plan.bytes + aligned(byte_size(type));
    plan.list.push_back(each);
  }
  return plan;
}

}  // namespace ridgeline
