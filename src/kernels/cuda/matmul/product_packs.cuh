// Products with a generated epilogue (emit_product.cc): threads take packs of 8 columns.
//
// Constants beside those of product_warpgroups.cuh: TOGETHER (packs whose operands a thread loads at once).
//
// The generated text before this one declares
//   struct Operands;                                      what eight columns read besides their sums
//   Operands load_operands(const ProductParams&, int64 row, int column);
//   void finish_pack(const ProductParams&, const Operands&, const char* sums, int64 row, int column);
// and PRODUCT_KERNEL, the name of the kernel.
#pragma once

#include "product_warpgroups.cuh"

namespace ridgeline {

constexpr int kPack = 8, kTogether = TOGETHER;

// Operands of the next packs are loaded before the sums are ready, and while others are processed.
struct PackEpilogue {
  static constexpr bool kAlongRows = false;
  static constexpr int kColumns = PAIRED ? kTileColumns / 2 : kTileColumns, kPacks = kColumns / kPack;
  static constexpr int kWorkers = kEpilogueWarps * 32;
  const ProductParams& p;
  const int first = threadIdx.x - kConsumerWarps * 32;
  int first_row, first_column;
  Operands operands[kTogether];

  __device__ __forceinline__ explicit PackEpilogue(const ProductParams& params) : p(params) {}

  __device__ __forceinline__ void begin(int, int row, int column) {
    first_row = row, first_column = column;
    load(first);
  }
  __device__ __forceinline__ void run(const char* sums) {
    for (int begin = first; begin < kTileRows * kPacks; begin += kWorkers * kTogether) {
      Operands now[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) now[k] = operands[k];
      load(begin + kWorkers * kTogether);
      finish(begin, now, sums);
    }
  }

 private:
  // Calls visit(k, row, column) for those of the kTogether packs from `begin` on that lie inside the result.
  template <class Visit>
  __device__ __forceinline__ void each(int begin, Visit visit) const {
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int item = begin + k * kWorkers, row = item / kPacks, column = item % kPacks * kPack;
      if (item < kTileRows * kPacks && first_row + row < p.products[0].rows &&
          first_column + column < p.products[0].columns)
        visit(k, row, column);
    }
  }
  __device__ __forceinline__ void load(int begin) {
    each(begin, [&](int k, int row, int column) {
      operands[k] = load_operands(p, first_row + row, first_column + column);
    });
  }
  __device__ __forceinline__ void finish(int begin, const Operands (&with)[kTogether], const char* sums) const {
    each(begin, [&](int k, int row, int column) {
      finish_pack(p, with[k], sums + row * Sums::kRowBytes + column * 2, first_row + row, first_column + column);
    });
  }
};

extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
PRODUCT_KERNEL(const __grid_constant__ ProductParams p) {
  wait_for_earlier_kernels();
  multiply_with_epilogue<PackEpilogue>(p);
}

}  // namespace ridgeline
