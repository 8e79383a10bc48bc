// Ops over many tensors at once: threads share the elements of all of them.
#include <cmath>
#include <vector>

#include "kernels/cpu/chunk.h"
#include "kernels/cpu/kernels.h"
#include "kernels/walk.h"

namespace ridgeline {
namespace {

// Up to kGrain elements of a tensor: one task.
struct Piece {
  size_t tensor;
  int64_t begin, end;
};

std::vector<Piece> pieces_of(std::span<const TensorView> tensors) {
  std::vector<Piece> pieces;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const int64_t count = element_count(tensors[t].shape);
    for (int64_t begin = 0; begin < count; begin += kGrain)
      pieces.push_back({t, begin, std::min(begin + kGrain, count)});
  }
  return pieces;
}

int64_t step_of(const TensorView& flat) {
  return flat.shape[0] == 1 ? 1 : flat.strides[0];
}

AdamWFactors adamw_factors(const KernelCall& call) {
  const auto& spec = std::get<AdamWSpec>(call.node.attributes.detail);
  const auto scalar = [&](AdamWScalar which) -> double {
    return call.inputs[0].as<float>()[static_cast<int64_t>(which) * call.inputs[0].strides[0]];
  };
  const bool is_cs336 = spec.variant == AdamWVariant::cs336;
  const double rate = scalar(AdamWScalar::learning_rate);
  const double root = std::sqrt(scalar(AdamWScalar::second_correction));
  const auto decay = static_cast<float>(1 - rate * spec.weight_decay);
  return {.gradient_scale = spec.scaled ? call.inputs[1].as<float>()[0] : 1.0f,
          .keep_first = static_cast<float>(spec.beta1),
          .take_first = static_cast<float>(1 - spec.beta1),
          .keep_second = static_cast<float>(spec.beta2),
          .take_second = static_cast<float>(1 - spec.beta2),
          .decay_before = is_cs336 ? 1.0f : decay,
          .decay_after = is_cs336 ? decay : 1.0f,
          .root_scale = is_cs336 ? 1.0f : static_cast<float>(1 / root),
          .epsilon = static_cast<float>(spec.epsilon),
          .step = static_cast<float>(rate * (is_cs336 ? root : 1.0) /
                                     scalar(AdamWScalar::first_correction))};
}

}  // namespace

// Each piece has its own sum; they are added in order, so that threads change no bit.
void sum_of_squares_kernel(const KernelCall& call, const CpuContext& context) {
  const SimdKernels& simd = simd_kernels(context.isa);
  const std::vector<Piece> pieces = pieces_of(call.inputs);
  std::vector<double> sums(pieces.size(), 0);
  context.pool.for_each(static_cast<int64_t>(pieces.size()), [&](int64_t index, int) {
    const Piece& piece = pieces[static_cast<size_t>(index)];
    const TensorView& x = call.inputs[piece.tensor];
    ChunkBuffer buffer;
    double total = 0;
    for (int64_t at = piece.begin; at < piece.end; at += kChunk) {
      const int64_t n = std::min(kChunk, piece.end - at);
      const float* values = load_chunk(simd, x, at * step_of(x), step_of(x), n, buffer);
      total += simd.sum_of_squares(values, n);
    }
    sums[static_cast<size_t>(index)] = total;
  });
  double total = 0;
  for (double sum : sums) total += sum;
  call.outputs[0].as<float>()[0] = static_cast<float>(total);
}

void adamw_update_kernel(const KernelCall& call, const CpuContext& context) {
  const SimdKernels& simd = simd_kernels(context.isa);
  const auto& spec = std::get<AdamWSpec>(call.node.attributes.detail);
  const size_t first = spec.first_parameter();
  const size_t count = call.outputs.size() / spec.results_of_each();
  const std::span<const TensorView> gradients = call.inputs.subspan(first + count, count);
  const AdamWFactors factors = adamw_factors(call);
  if (spec.skips && factors.gradient_scale == 0) return;

  const std::vector<Piece> pieces = pieces_of(gradients);
  context.pool.for_each(static_cast<int64_t>(pieces.size()), [&](int64_t index, int) {
    const Piece& piece = pieces[static_cast<size_t>(index)];
    const TensorView& g = gradients[piece.tensor];
    const TensorView& p = call.outputs[piece.tensor];
    float* m = call.outputs[count + piece.tensor].as<float>();
    float* v = call.outputs[2 * count + piece.tensor].as<float>();
    ChunkBuffer gradient, widened;
    for (int64_t at = piece.begin; at < piece.end; at += kChunk) {
      const int64_t n = std::min(kChunk, piece.end - at);
      const float* d = load_chunk(simd, g, at * step_of(g), step_of(g), n, gradient);
      const bool is_wide = p.dtype == DType::f32;
      float* wide = is_wide ? p.as<float>() + at : widened.data();
      if (!is_wide) simd.load(p.dtype, element_address(p, at), wide, n);
      simd.adamw(factors, wide, d, m + at, v + at, n);
      if (!is_wide) simd.store(p.dtype, wide, element_address(p, at), n);
      if (!spec.copied) continue;
      const TensorView& copy = call.outputs[3 * count + piece.tensor];
      simd.store(copy.dtype, wide, element_address(copy, at), n);
    }
  });
}

void loss_scale_update_kernel(const KernelCall& call, const CpuContext&) {
  const auto& spec = std::get<LossScaleSpec>(call.node.attributes.detail);
  auto* state = call.outputs[0].as<float>();
  const auto of = [&](LossScaleState which) -> float& { return state[static_cast<size_t>(which)]; };
  const bool is_taken = std::isfinite(call.inputs[1].as<float>()[0]);
  if (!is_taken) ++of(LossScaleState::skipped_steps);
  if (spec.growth_interval == 0) return;
  float& good_steps = of(LossScaleState::good_steps);
  good_steps = is_taken ? good_steps + 1 : 0;
  if (!is_taken) of(LossScaleState::scale) /= 2;
  if (good_steps < static_cast<float>(spec.growth_interval)) return;
  of(LossScaleState::scale) *= 2;
  good_steps = 0;
}

}  // namespace ridgeline
