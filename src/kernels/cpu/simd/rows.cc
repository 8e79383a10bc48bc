// Reductions and softmax over one contiguous row, and the table of this instruction set.
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/simd/pointwise.h"
#include "kernels/cpu/simd/vectors.h"
#include "kernels/cpu/simd_kernels.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

const auto kSame = [](Floats x) { return x; };
const auto kAdd = [](Floats x, Floats y) { return hn::Add(x, y); };
const auto kMax = [](Floats x, Floats y) { return hn::Max(x, y); };
const auto kMultiply = [](Floats x, Floats y) { return hn::Mul(x, y); };

float sum(const float* x, int64_t count) {
  return hn::GetLane(hn::SumOfLanes(Wide(), accumulate(0.0f, kSame, kAdd, count, x)));
}

float max(const float* x, int64_t count) {
  return hn::GetLane(hn::MaxOfLanes(Wide(), accumulate(-__builtin_inff(), kSame, kMax, count, x)));
}

// The row is read from memory once; the two passes over y find it in the cache.
void softmax(const float* x, float* y, int64_t count) {
  const Floats largest = hn::Set(Wide(), max(x, count));
  map([&](Floats v) { return hn::Exp(Wide(), hn::Sub(v, largest)); }, y, count, x);
  const Floats scale = hn::Set(Wide(), 1.0f / sum(y, count));
  map([&](Floats v) { return hn::Mul(v, scale); }, y, count, y);
}

void softmax_gradient(const float* y, const float* d_y, float* d_x, int64_t count) {
  const Floats dot = hn::SumOfLanes(Wide(), accumulate(0.0f, kMultiply, kAdd, count, y, d_y));
  map([&](Floats value, Floats gradient) { return hn::Mul(value, hn::Sub(gradient, dot)); }, d_x,
      count, y, d_y);
}

}  // namespace

const SimdKernels kSimdKernels = {
    .pointwise = pointwise,
    .load = load,
    .store = store,
    .sum = sum,
    .max = max,
    .softmax = softmax,
    .softmax_gradient = softmax_gradient,
};

}  // namespace ridgeline::RIDGELINE_ISA
