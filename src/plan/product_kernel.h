// Fuses a product with the pointwise kernel that reads it, which then works on sums before they
// reach memory.
#pragma once

#include <optional>

#include "plan/fuse.h"

namespace ridgeline {

inline constexpr size_t kMostProductOperands = 12;  // of such a kernel, results included

// `reader` with the product inside, or none where the layouts do not allow it. `is_needed`: the
// product has other readers, so the kernel also writes it.
//
// Requires a product of two 16-bit matrices, and a reader without folds that processes the result
// row by row: over all columns, or over both halves of them together, as a gated unit does. All
// other operands of the reader must allow accesses of eight adjacent elements.
std::optional<Group> with_product(const Graph& graph, const std::vector<Layout>& layouts,
                                  const Group& product, const Group& reader, bool is_needed);

// The matrices of a product as our own kernels read them, or none where layouts or sizes do not
// allow it.
struct ProductMatrices {
  FusedMatrix left, right;
};
std::optional<ProductMatrices> product_matrices(const Graph& graph,
                                                const std::vector<Layout>& layouts,
                                                uint32_t product);

// The distance from a column of the domain to the second product column that is read with it; 0:
// none.
int64_t paired_column(const FusedKernel& kernel);

}  // namespace ridgeline
