// Single values between host memory in any dtype and fp32; for tests, oracles and odd strides.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/float16.h"
#include "graph/dtype.h"

namespace ridgeline {

// The element at `offset` from `data`, in elements.
inline float load_one(DType dtype, const void* data, int64_t offset) {
  switch (dtype) {
    case DType::f32:
    case DType::tf32:
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

// Rounds to nearest even.
inline void store_one(DType dtype, float value, void* data, int64_t offset) {
  switch (dtype) {
    case DType::f32:
    case DType::tf32:
      static_cast<float*>(data)[offset] = value;
      return;
    case DType::bf16:
      static_cast<uint16_t*>(data)[offset] = float_to_bf16(value);
      return;
    case DType::f16:
      static_cast<uint16_t*>(data)[offset] = float_to_f16(value);
      return;
    case DType::i32:
      static_cast<int32_t*>(data)[offset] = static_cast<int32_t>(value);
      return;
    case DType::boolean:
      static_cast<uint8_t*>(data)[offset] = value != 0;
      return;
  }
}

// The value as a tensor of this dtype holds it.
inline float rounded_to(DType dtype, float value) {
  char stored[sizeof(float)];
  store_one(dtype, value, stored, 0);
  return load_one(dtype, stored, 0);
}

// A constant in its own dtype, as kernels take it.
inline uint64_t scalar_bits(DType dtype, double value) {
  uint64_t bits = 0;
  if (dtype == DType::i32) {
    const auto whole = static_cast<int32_t>(value);
    std::memcpy(&bits, &whole, sizeof whole);  // fp32 would not hold all of them
  } else {
    store_one(dtype, static_cast<float>(value), &bits, 0);
  }
  return bits;
}

}  // namespace ridgeline
