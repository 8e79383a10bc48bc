// The pointwise ops and folds that generated kernels know: their text, and how much work they are.
#pragma once

#include <string_view>

#include "graph/op.h"

namespace ridgeline {

struct FusedOp {
  std::string_view text = {};  // of an expression: {0}, {1}, {2} are the operands; empty: unknown
  int weight = 1;              // arithmetic of one element, in additions
};

// Functions named in the text are those of kernels/cuda/fused.cuh and of plan/host_preamble.cc.
FusedOp fused_op(Op op);

}  // namespace ridgeline
