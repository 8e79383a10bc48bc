// The gradient rule of each op, as a table.
#pragma once

#include <vector>

#include "graph/tensor.h"

namespace ridgeline {

struct GradientContext {
  const Node& node;
  std::vector<Tensor> inputs;
  Tensor output;  // the first one of several results, as is d_output
  Tensor d_output;
  std::vector<bool> wanted;  // which inputs need a gradient; a rule may skip the others
};

// One gradient per input, which the caller sums to the input's shape; an empty Tensor where there
// is none.
using GradientRule = std::vector<Tensor> (*)(const GradientContext&);

// Null for ops without a gradient: leaves, comparisons, updates, and the gradient of attention.
GradientRule gradient_rule(Op op);

}  // namespace ridgeline
