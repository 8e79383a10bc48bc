// Reverse-mode differentiation: appends to a graph the nodes that compute its gradients.
#pragma once

#include <span>
#include <vector>

#include "graph/tensor.h"

namespace ridgeline {

// An output of the graph and the gradient that arrives there.
struct Cotangent {
  Tensor output;
  Tensor gradient;
};

// The gradients of sum over cotangents of <output, gradient> with respect to each of `sources`, in
// their order and types. A source that no output depends on gets zeros. Only paths that lead to a
// source are differentiated. Throws a usage error for an op on such a path that has no gradient.
std::vector<Tensor> gradient(std::span<const Cotangent> cotangents,
                             std::span<const Tensor> sources);

}  // namespace ridgeline
