// Kernels with products inside, as launches (product_warpgroups.cuh): what all of them share, and
// generated ones (product_packs.cuh).
#pragma once

#include <span>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/params.h"
#include "plan/fused_kernel.h"

namespace ridgeline {

// Whether a device has the instructions that these kernels need.
bool has_product_kernels(const CudaFacts& device);

// The tile of the products in product_warpgroups.cuh.
struct ProductTile {
  static constexpr int64_t kRows = 128, kColumns = 192, kDepth = 64;
};

// A matrix of a product, of 16 bits: `stride` elements between contiguous rows or columns.
struct ProductMatrix {
  const void* data = nullptr;
  int64_t stride = 0;
  bool is_k_major = true;  // whether it is contiguous along the depth of the product
};

// A launch of products whose matrices share one layout; put_product() and put_grid() set params,
// boxed tensors and grid.
CudaLaunch product_launch(CudaKernel kernel, DType dtype, bool left_k_major, bool right_k_major,
                          bool paired);

struct ProductSpan {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t epilogue_columns = 0;  // all, or half of them
};
// Adds a product to a launch: its matrices are copied by TMA. Returns what belongs at `place` in
// the kernel's parameters.
ProductProblem put_product(CudaLaunch& launch, size_t place, DType dtype, const ProductSpan& span,
                           const ProductMatrix& left, const ProductMatrix& right);
void put_grid(CudaLaunch& launch, int64_t tile_pairs, const CudaFacts& device);

class CudaProductKernel {
 public:
  // Throws an unsupported error for other devices.
  CudaProductKernel(const FusedKernel& kernel, const CudaFacts& device);

  const CudaKernel& kernel() const { return launch_.kernel; }

  // Addresses of storages as in FusedProgram: the matrices' follow those of the inputs.
  CudaLaunch launch(std::span<void* const> inputs, std::span<void* const> outputs,
                    const CudaFacts& device) const;

 private:
  CudaLaunch launch_;             // without addresses and grid
  int64_t tile_pairs_;            // pairs of tiles, one per cluster
  std::vector<int64_t> offsets_;  // of inputs, matrices and results, in bytes
};

}  // namespace ridgeline
