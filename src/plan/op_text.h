// What kernels call dtypes, and the pointwise ops that generated ones know: their text, and how
// much work they are.
#pragma once

#include <string_view>

#include "graph/dtype.h"
#include "graph/op.h"

namespace ridgeline {

// The type of elements.cuh and of plan/host_preamble.cc that stores a dtype.
const char* element_name(DType dtype);
// The fold of kernels/cuda/groups.cuh that a reduction takes.
const char* fold_name(Op op);

struct FusedOp {
  std::string_view text =
      {};          // of an expression: {0}, {1}, {2} are the operands; empty: never fused
  int weight = 1;  // arithmetic of one element, in additions
};

// Functions named in the text are those of kernels/cuda/fused.cuh and of plan/host_preamble.cc.
FusedOp fused_op(Op op);

}  // namespace ridgeline
