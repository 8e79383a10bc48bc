// Reverse-mode differentiation: appends to a graph the nodes that compute its gradients.
#pragma once

#include <span>
#include <vector>

#include "graph/tensor.h"

namespace ridgeline {

// An output of the graph and its incoming gradient.
struct Cotangent {
  Tensor output;
  Tensor gradient;
};

// The gradients of sum over cotangents of <output, gradient> with respect to each of `sources`, in
// their order and types. A source that no output depends on gets zeros. Only paths that lead to a
// source are differentiated; comparisons end a path. Throws a usage error for ops without a
// gradient on such a path: gradients of attention, its log-sum-exps, updates.
std::vector<Tensor> gradient(std::span<const Cotangent> cotangents,
                             std::span<const Tensor> sources);

}  // namespace ridgeline
