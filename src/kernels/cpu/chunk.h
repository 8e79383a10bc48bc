// A range of a strided tensor as contiguous fp32, without a copy if it already is that.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/cpu/simd_kernels.h"
#include "kernels/host_values.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

inline constexpr int64_t kChunk = 2048;  // three operands and a result stay inside a 48 KiB L1
inline constexpr int64_t kGrain = 8 * kChunk;  // elements per task, at least

using ChunkBuffer = std::array<float, kChunk>;

// Widens `count` elements from `offset` on, `step` apart, into `to`.
inline void widen_row(const SimdKernels& simd, DType dtype, const void* data, int64_t offset,
                      int64_t step, int64_t count, float* to) {
  if (step == 1)
    return simd.load(dtype, static_cast<const char*>(data) + offset * info(dtype).size, to, count);
  if (step == 0) {
    std::fill_n(to, count, load_one(dtype, data, offset));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = load_one(dtype, data, offset + i * step);
}

// Loads `count` elements from `offset` on, `stride` apart: at most kChunk unless they need no copy.
inline const float* load_chunk(const SimdKernels& simd, const TensorView& view, int64_t offset,
                               int64_t stride, int64_t count, ChunkBuffer& buffer) {
  if (stride == 1 && view.dtype == DType::f32) return view.as<float>() + offset;
  widen_row(simd, view.dtype, view.data, offset, stride, count, buffer.data());
  return buffer.data();
}

}  // namespace ridgeline
