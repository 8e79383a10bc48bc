// Reductions and softmax over one contiguous row, and the kernel table of this instruction set.
#include "kernels/cpu/simd/pointwise.h"
#include "kernels/cpu/simd/vectors.h"
#include "kernels/cpu/simd_kernels.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

const auto kSame = [](Floats x) { return x; };
const auto kAdd = [](Floats x, Floats y) { return hn::Add(x, y); };
const auto kMultiply = [](Floats x, Floats y) { return hn::Mul(x, y); };

float sum(const float* x, int64_t count) {
  return hn::GetLane(hn::SumOfLanes(Wide(), accumulate(0.0f, kSame, kAdd, count, x)));
}

float max(const float* x, int64_t count) {
  const auto fold = [](Floats largest, Floats v) { return larger(v, largest); };
  const Floats lanes = accumulate(-__builtin_inff(), kSame, fold, count, x);
  if (!hn::AllFalse(Wide(), hn::IsNaN(lanes))) return __builtin_nanf("");
  return hn::GetLane(hn::MaxOfLanes(Wide(), lanes));
}

// For softmax, whose weights are NaN anyway if an element is.
HWY_INLINE Floats largest_of(const float* x, int64_t count) {
  const auto fold = [](Floats largest, Floats v) { return hn::Max(largest, v); };
  return hn::MaxOfLanes(Wide(), accumulate(-__builtin_inff(), kSame, fold, count, x));
}

// e^(x - largest) for x <= largest; exactly 0 for masked elements. NaN stays NaN.
HWY_INLINE Floats weight(Floats x, Floats largest) {
  const Floats power = hn::Mul(hn::Sub(x, largest), hn::Set(Wide(), 1.4426950408889634f));
  return hn::IfThenZeroElse(hn::Le(power, hn::Set(Wide(), -100.0f)), exp2_floats(power));
}

// The row is read from memory once; later passes find it in the cache.
void softmax(const float* x, float* y, int64_t count) {
  const Floats largest = largest_of(x, count);
  Floats a = hn::Zero(Wide()), b = a;
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const Floats first = weight(hn::LoadU(Wide(), x + i), largest);
    const Floats second = weight(hn::LoadU(Wide(), x + i + kLanes), largest);
    a = hn::Add(a, first);
    b = hn::Add(b, second);
    hn::StoreU(first, Wide(), y + i);
    hn::StoreU(second, Wide(), y + i + kLanes);
  }
  for (; i < count; i += kLanes) {
    const int64_t rest = count - i < kLanes ? count - i : kLanes;
    const auto inside = hn::FirstN(Wide(), static_cast<size_t>(rest));
    const Floats last = hn::IfThenElseZero(inside, weight(load_first(x + i, rest), largest));
    a = hn::Add(a, last);
    store_first(last, y + i, rest);
  }
  const float total = hn::GetLane(hn::SumOfLanes(Wide(), hn::Add(a, b)));
  const Floats scale = hn::Set(Wide(), 1.0f / total);
  map([&](Floats v) { return hn::Mul(v, scale); }, y, count, y);
}

void softmax_gradient(const float* y, const float* d_y, float* d_x, int64_t count) {
  const Floats dot = hn::SumOfLanes(Wide(), accumulate(0.0f, kMultiply, kAdd, count, y, d_y));
  map([&](Floats value, Floats gradient) { return hn::Mul(value, hn::Sub(gradient, dot)); }, d_x,
      count, y, d_y);
}

// Sums runs of a row in fp32 and adds these up in fp64: a vocabulary is too long for one fp32 sum.
template <class Lift>
float sum_in_runs(Lift lift, const float* x, int64_t count) {
  constexpr int64_t kRun = 512;
  double total = 0;
  for (int64_t i = 0; i < count; i += kRun) {
    const int64_t n = count - i < kRun ? count - i : kRun;
    total += hn::GetLane(hn::SumOfLanes(Wide(), accumulate(0.0f, lift, kAdd, n, x + i)));
  }
  return static_cast<float>(total);
}

void log_softmax(const float* x, float* y, int64_t count) {
  const Floats largest = largest_of(x, count);
  const auto lift = [&](Floats v) { return weight(v, largest); };
  const Floats shift = hn::Set(Wide(), __builtin_logf(sum_in_runs(lift, x, count)));
  map([&](Floats v) { return hn::Sub(hn::Sub(v, largest), shift); }, y, count, x);
}

void log_softmax_gradient(const float* y, const float* d_y, float* d_x, int64_t count) {
  const Floats total = hn::Set(Wide(), sum_in_runs(kSame, d_y, count));
  const auto gradient = [&](Floats value, Floats d) {
    return hn::NegMulAdd(weight(value, hn::Zero(Wide())), total, d);
  };
  map(gradient, d_x, count, y, d_y);
}

float sum_of_squares(const float* x, int64_t count) {
  return hn::GetLane(hn::SumOfLanes(Wide(), accumulate(0.0f, kMultiply, kAdd, count, x, x)));
}

}  // namespace

const SimdKernels kSimdKernels = {
    .pointwise = pointwise,
    .compare_integers = compare_integers,
    .load = load,
    .store = store,
    .sum = sum,
    .max = max,
    .softmax = softmax,
    .softmax_gradient = softmax_gradient,
    .log_softmax = log_softmax,
    .log_softmax_gradient = log_softmax_gradient,
    .attend = attend,
    .multiply_few_rows = multiply_few_rows,
    .sum_of_squares = sum_of_squares,
    .adamw = adamw,
};

}  // namespace ridgeline::RIDGELINE_ISA
