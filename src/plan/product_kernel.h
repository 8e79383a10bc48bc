// A product and the pointwise kernel behind it as one kernel, which works on sums before they reach
// memory.
#pragma once

#include <optional>

#include "plan/fuse.h"

namespace ridgeline {

inline constexpr size_t kMostProductOperands = 12;  // of such a kernel, results included

// `reader` with the product inside, or nothing where their layouts do not allow it. `is_needed`:
// somebody else reads the product, so that the kernel writes it, too.
//
// Allowed are products of two 16-bit matrices, and readers without folds that go through the result
// row by row: over all columns, or over the first half of them together with the second, as a gated
// unit does. Whatever else the reader touches lies so that eight neighbours are one access.
std::optional<Group> with_product(const Graph& graph, const std::vector<Layout>& layouts,
                                  const Group& product, const Group& reader, bool is_needed);

// The matrices of a product as kernels of our own read them, or nothing where their layouts or
// sizes do not allow it.
struct ProductMatrices {
  FusedMatrix left, right;
};
std::optional<ProductMatrices> product_matrices(const Graph& graph,
                                                const std::vector<Layout>& layouts,
                                                uint32_t product);

// From a column of the domain to the second one that is read of the product; 0: there is none.
int64_t paired_column(const FusedKernel& kernel);

}  // namespace ridgeline
