#include "dist/reduce.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/simd_kernels.h"

namespace ridgeline {
namespace {

// Elements per chunk: two chunks, the sum and a widened part, fit in the L1 cache.
constexpr int64_t kChunk = 2048;

const void* at(const void* data, int64_t element, int size) {
  return static_cast<const char*>(data) + element * size;
}
void* at(void* data, int64_t element, int size) {
  return static_cast<char*>(data) + element * size;
}

}  // namespace

void sum_in_rank_order(DType dtype, std::span<const void* const> parts, std::span<void* const> outs,
                       int64_t count) {
  static const SimdKernels& simd = simd_kernels(default_isa());
  const int size = info(dtype).size;
  const bool is_fp32 = size == sizeof(float);
  alignas(64) float sum[kChunk];
  alignas(64) float widened[kChunk];
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t length = std::min(kChunk, count - begin);
    const auto part = [&](size_t rank, float* space) {
      const void* stored = at(parts[rank], begin, size);
      if (is_fp32) return static_cast<const float*>(stored);
      simd.load(dtype, stored, space, length);
      return static_cast<const float*>(space);
    };
    const float* so_far = part(0, sum);
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      const PointwiseOperand operands[] = {{so_far}, {part(rank, widened)}};
      simd.pointwise(Op::add, operands, sum, length);
      so_far = sum;
    }
    for (void* out : outs) {
      void* to = at(out, begin, size);
      if (is_fp32 && to != so_far)
        std::memcpy(to, so_far, static_cast<size_t>(length * size));
      else if (!is_fp32)
        simd.store(dtype, so_far, to, length);
    }
  }
}

}  // namespace ridgeline
