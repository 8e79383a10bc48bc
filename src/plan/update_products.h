// Updates that compute gradients themselves: products whose results only an AdamW update reads
// become part of it, so that gradients never reach memory, and traffic of parameters and moments
// overlaps the products.
#pragma once

#include <functional>
#include <span>

#include "plan/fuse.h"
#include "plan/product_size.h"

namespace ridgeline {

// Whether an update is faster with these products inside: all in 16 bits, concurrently in one
// kernel.
using ChooseUpdateProducts = std::function<bool(std::span<const ProductSize> products)>;

void take_update_products(const Graph& graph, FusedGraph& fused,
                          const ChooseUpdateProducts& choose);

// The node of an update with products as a device runs it (AdamWSpec::products).
Node update_node(const Graph& graph, const Group& group);

}  // namespace ridgeline
