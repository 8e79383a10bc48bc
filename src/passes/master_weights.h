// Weights that products read in 16 bits are kept in 16 bits, beside those that the optimizer reads.
#pragma once

#include <functional>
#include <string_view>

#include "graph/graph.h"

namespace ridgeline {

inline constexpr std::string_view kCopyPrefix = "16bit.";  // of the inputs that hold copies

// For finished graphs, after gradients and simplify(). An input that is_weight() and that is cast
// to 16 bits
// - becomes an input of that dtype under its own name if nobody reads it otherwise: without an
//   optimizer there is nothing that needs more;
// - else gets an input "16bit.<name>" beside it, which adamw_update writes together with the
//   weight. Whoever fills the weight fills both.
// Updates read gradients in the dtype in which they were computed, instead of casts of them. They
// are cut into several nodes, so that one can run while others wait for their gradients.
Graph master_weights(const Graph& graph, const std::function<bool(std::string_view)>& is_weight);

}  // namespace ridgeline
