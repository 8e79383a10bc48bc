// A stretch of a strided tensor as contiguous fp32, without a copy where it already is that.
#pragma once

#include <algorithm>
#include <array>

#include "base/float16.h"
#include "kernels/cpu/simd_kernels.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

inline constexpr int64_t kChunk = 2048;  // three operands and a result stay inside a 48 KiB L1

using ChunkBuffer = std::array<float, kChunk>;

inline float load_one(DType dtype, const void* data, int64_t offset) {
  switch (dtype) {
    case DType::f32:
      return static_cast<const float*>(data)[offset];
    case DType::bf16:
      return bf16_to_float(static_cast<const uint16_t*>(data)[offset]);
    case DType::f16:
      return f16_to_float(static_cast<const uint16_t*>(data)[offset]);
    case DType::i32:
      return static_cast<float>(static_cast<const int32_t*>(data)[offset]);
    case DType::boolean:
      return static_cast<const uint8_t*>(data)[offset];
  }
  return 0;
}

// `count` elements from `offset` on, `stride` apart; at most kChunk unless they need no copy.
inline const float* load_chunk(const SimdKernels& simd, const TensorView& view, int64_t offset,
                               int64_t stride, int64_t count, ChunkBuffer& buffer) {
  if (stride == 1) {
    if (view.dtype == DType::f32) return view.as<float>() + offset;
    simd.load(view.dtype, static_cast<char*>(view.data) + offset * info(view.dtype).size,
              buffer.data(), count);
  } else if (stride == 0) {
    std::fill_n(buffer.begin(), count, load_one(view.dtype, view.data, offset));
  } else {
    for (int64_t i = 0; i < count; ++i)
      buffer[static_cast<size_t>(i)] = load_one(view.dtype, view.data, offset + i * stride);
  }
  return buffer.data();
}

}  // namespace ridgeline
