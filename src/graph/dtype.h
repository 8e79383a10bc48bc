// Element types of tensors.
#pragma once

#include <cstdint>
#include <string_view>

namespace ridgeline {

// tf32 is stored as fp32; only products differ: they round their operands to ten mantissa bits.
enum class DType : uint8_t { f32, bf16, f16, i32, boolean, tf32 };

struct DTypeInfo {
  std::string_view name;  // as users write it: fp32, tf32, bf16, fp16
  int size;               // bytes per element
  double epsilon;         // distance from 1 to the next value; 0 for exact types
};

constexpr DTypeInfo info(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {"fp32", 4, 0x1p-23};
    case DType::tf32:
      return {"tf32", 4, 0x1p-10};
    case DType::bf16:
      return {"bf16", 2, 0x1p-7};
    case DType::f16:
      return {"fp16", 2, 0x1p-10};
    case DType::i32:
      return {"i32", 4, 0};
    case DType::boolean:
      return {"bool", 1, 0};
  }
  return {"?", 0, 0};
}

constexpr bool is_16_bit(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16;
}
constexpr bool is_floating(DType dtype) {
  return info(dtype).epsilon > 0;
}

// "fp32" | "tf32" | "bf16" | "fp16"; throws a usage error for anything else.
DType parse_float_dtype(std::string_view name);

}  // namespace ridgeline
