// Loops over contiguous fp32 that handle the tail, for all vector code of this folder.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vec_math.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

// Loads the first `count` lanes, with zeros after them.
HWY_INLINE Floats load_first(const float* from, int64_t count) {
  return hn::MaskedLoad(hn::FirstN(Wide(), static_cast<size_t>(count)), Wide(), from);
}

HWY_INLINE void store_first(Floats values, float* to, int64_t count) {
  hn::BlendedStore(values, hn::FirstN(Wide(), static_cast<size_t>(count)), Wide(), to);
}

// to[i] = f(operands[0][i], ...) over whole vectors, then over the tail.
template <class F, class... Operands>
HWY_INLINE void map(F f, float* to, int64_t count, const Operands*... operands) {
  const Wide wide;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(f(hn::LoadU(wide, operands + i)...), wide, to + i);
  if (i < count) store_first(f(load_first(operands + i, count - i)...), to + i, count - i);
}

// Four independent accumulators hide the latency of additions; `fold` combines two of them, and
// `lift` maps a vector of inputs to what is accumulated. Lanes beyond the end hold `neutral`.
template <class Lift, class Fold, class... Operands>
HWY_INLINE Floats accumulate(float neutral, Lift lift, Fold fold, int64_t count,
                             const Operands*... operands) {
  const Wide wide;
  const Floats start = hn::Set(wide, neutral);
  Floats a = start, b = start, c = start, d = start;
  const int64_t n = kLanes;
  int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    a = fold(a, lift(hn::LoadU(wide, operands + i)...));
    b = fold(b, lift(hn::LoadU(wide, operands + i + n)...));
    c = fold(c, lift(hn::LoadU(wide, operands + i + 2 * n)...));
    d = fold(d, lift(hn::LoadU(wide, operands + i + 3 * n)...));
  }
  for (; i + n <= count; i += n) a = fold(a, lift(hn::LoadU(wide, operands + i)...));
  if (i < count) {
    const auto inside = hn::FirstN(wide, static_cast<size_t>(count - i));
    const Floats last = lift(load_first(operands + i, count - i)...);
    b = fold(b, hn::IfThenElse(inside, last, start));
  }
  return fold(fold(a, b), fold(c, d));
}

}  // namespace
}  // namespace ridgeline::RIDGELINE_ISA
