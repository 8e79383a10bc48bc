// Splits an attention problem into heads and tiles for the vector code.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>

#include "kernels/cpu/flash.h"
#include "kernels/cpu/simd/flash_kernels.h"
#include "kernels/cuts.h"

namespace ridgeline {

struct AttentionSizes {
  int64_t batch, heads, key_heads, queries, keys, head_dim;
  int64_t group() const { return heads / key_heads; }
};

// Throws where the graph permits what the kernels do not: TF32, heads that are too wide. The rest
// fits by graph/infer.cc.
AttentionSizes sizes_of(const TensorView& q, const TensorView& k);

FlashMask resolve(const AttentionMask& mask, const AttentionSizes& sizes);
FlashRows rows_of(const TensorView& view, int64_t batch, int64_t head);
// Whether kernels in blocks of bf16 exist for this instruction set and can read the tensors: bf16
// with contiguous columns, heads of a multiple of 32.
bool fits_blocks(Isa isa, std::initializer_list<TensorView> tensors);

inline FlashRange tile_range(int64_t index, int64_t tile, int64_t length) {
  const int64_t begin = index * tile;
  return {begin, begin + tile < length ? begin + tile : length};
}

// Floats that start on a cache line, uninitialised; throws an out_of_memory error.
class AlignedFloats {
 public:
  explicit AlignedFloats(int64_t count);
  float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* data) const;
  };
  std::unique_ptr<float, Free> data_;
};

// Scratch for each thread of a pool. The calling thread keeps the memory for its next attention,
// since fresh pages would take as long as a short one. One at a time per thread.
class ThreadScratch {
 public:
  ThreadScratch(const ThreadPool& pool, int64_t floats);
  float* of(int thread) const { return floats_ + stride_ * thread; }

 private:
  int64_t stride_;
  float* floats_;
};

}  // namespace ridgeline
