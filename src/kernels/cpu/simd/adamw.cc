// One AdamW step over contiguous fp32.
#include "kernels/cpu/simd/pointwise.h"
#include "kernels/cpu/simd/vectors.h"

namespace ridgeline::RIDGELINE_ISA {

void adamw(const AdamWFactors& factors, float* p, const float* g, float* m, float* v,
           int64_t count) {
  const auto all = [](float value) { return hn::Set(Wide(), value); };
  const Floats scale = all(factors.gradient_scale);
  const Floats keep_m = all(factors.keep_first), take_m = all(factors.take_first);
  const Floats keep_v = all(factors.keep_second), take_v = all(factors.take_second);
  const Floats decay_before = all(factors.decay_before), decay_after = all(factors.decay_after);
  const Floats root_scale = all(factors.root_scale), epsilon = all(factors.epsilon);
  const Floats step = all(factors.step);
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    const bool whole = n == kLanes;
    const auto load = [&](const float* from) {
      return whole ? hn::LoadU(Wide(), from + i) : load_first(from + i, n);
    };
    const auto store = [&](Floats value, float* to) {
      whole ? hn::StoreU(value, Wide(), to + i) : store_first(value, to + i, n);
    };
    const Floats d = hn::Mul(load(g), scale);
    const Floats first = hn::MulAdd(keep_m, load(m), hn::Mul(take_m, d));
    const Floats second = hn::MulAdd(keep_v, load(v), hn::Mul(take_v, hn::Mul(d, d)));
    const Floats root = hn::MulAdd(hn::Sqrt(second), root_scale, epsilon);
    const Floats moved = hn::NegMulAdd(step, hn::Div(first, root), hn::Mul(load(p), decay_before));
    store(hn::Mul(moved, decay_after), p);
    store(first, m);
    store(second, v);
  }
}

}  // namespace ridgeline::RIDGELINE_ISA
