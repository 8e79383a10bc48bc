// Element types of the plain products: storage, and its value in fp32.
#pragma once

#include "base/float16.h"
#include "kernels/cpu/kernels.h"

namespace ridgeline {

struct Fp32Element {
  using Stored = float;
  static float widen(float x) { return x; }
  static float narrow(float x) { return x; }
};
struct Bf16Element {
  using Stored = uint16_t;
  static float widen(uint16_t x) { return bf16_to_float(x); }
  static uint16_t narrow(float x) { return float_to_bf16(x); }
};
struct Fp16Element {
  using Stored = uint16_t;
  static float widen(uint16_t x) { return f16_to_float(x); }
  static uint16_t narrow(float x) { return float_to_f16(x); }
};

// Calls f with the element type of a dtype; a CPU has no tf32.
template <class F>
void with_element(DType dtype, F f) {
  if (dtype == DType::f32) return f(Fp32Element());
  if (dtype == DType::bf16) return f(Bf16Element());
  if (dtype == DType::f16) return f(Fp16Element());
  throw no_tf32();
}

}  // namespace ridgeline
