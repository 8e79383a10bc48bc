// One AdamW step over many tensors: a block replaces a piece of PIECE elements of one of them.
//
// Constants: PARAMETER, GRADIENT (element types), PACK (elements of one access; 1: gradients may
// have a step), PIECE (elements of a block), THREADS, CS336 (1: that variant, 0: PyTorch's), SCALED
// (1: gradients have a factor; 2: besides, a factor of 0 skips the step), COPIED (1: the parameters
// are written a second time as COPY).
#include "elements.cuh"
#include "tensor_list.cuh"

namespace ridgeline {

// p = (p decay_before - step m / (sqrt(v) root_scale + epsilon)) decay_after.
struct Factors {
  float gradient, decay_before, decay_after, root_scale, step;
};

__device__ __forceinline__ Factors factors_of(const AdamWParams& p) {
  const float rate = p.scalars[0], first_correction = p.scalars[1];
  const float root = sqrtf(p.scalars[2]);
  const float decay = 1.0f - rate * p.weight_decay;
  Factors f;
  f.gradient = SCALED ? *p.gradient_scale : 1.0f;
  f.decay_before = CS336 ? 1.0f : decay;
  f.decay_after = CS336 ? decay : 1.0f;
  f.root_scale = CS336 ? 1.0f : 1.0f / root;
  f.step = rate * (CS336 ? root : 1.0f) / first_correction;
  return f;
}

__device__ __forceinline__ void step(const AdamWParams& p, const Factors& f, float& parameter,
                                     float gradient, float& m, float& v) {
  const float g = gradient * f.gradient;
  m = p.keep_first * m + p.take_first * g;
  v = p.keep_second * v + p.take_second * (g * g);
  const float root = sqrtf(v) * f.root_scale + p.epsilon;
  parameter = (parameter * f.decay_before - f.step * (m / root)) * f.decay_after;
}

extern "C" __global__ void __launch_bounds__(THREADS) adamw(const __grid_constant__ AdamWParams p) {
  wait_for_earlier_kernels();
  const auto& tensor = p.tensors[tensor_of_block(p.tensors, p.count)];
  const Factors f = factors_of(p);
  if (SCALED == 2 && f.gradient == 0.0f) return;
  const int64 begin = static_cast<int64>(blockIdx.x - tensor.first_block) * PIECE;
  const int64 end = begin + PIECE < tensor.count ? begin + PIECE : tensor.count;
  PARAMETER* parameters = static_cast<PARAMETER*>(tensor.parameter);
  const GRADIENT* gradients = static_cast<const GRADIENT*>(tensor.gradient);
  for (int64 at = begin + threadIdx.x * PACK; at < end; at += THREADS * PACK) {
    if (PACK > 1 && at + PACK <= end) {
      Pack<PARAMETER, PACK> parameter = load_pack<PACK>(parameters + at);
      const Pack<GRADIENT, PACK> gradient = load_pack<PACK>(gradients + at);
      Pack<float, PACK> m = load_pack<PACK>(tensor.first_moment + at);
      Pack<float, PACK> v = load_pack<PACK>(tensor.second_moment + at);
      Pack<COPY, PACK> copy;
#pragma unroll
      for (int i = 0; i < PACK; ++i) {
        float wide = widen(parameter.at[i]);
        step(p, f, wide, widen(gradient.at[i]), m.at[i], v.at[i]);
        parameter.at[i] = Narrow<PARAMETER>::from(wide);
        if (COPIED) copy.at[i] = Narrow<COPY>::from(wide);
      }
      store_pack(parameters + at, parameter);
      store_pack(tensor.first_moment + at, m);
      store_pack(tensor.second_moment + at, v);
      if (COPIED) store_pack(static_cast<COPY*>(tensor.copy) + at, copy);
      continue;
    }
    for (int64 i = at; i < at + PACK && i < end; ++i) {
      float wide = widen(parameters[i]);
      const float gradient = widen(gradients[i * (PACK > 1 ? 1 : tensor.gradient_step)]);
      step(p, f, wide, gradient, tensor.first_moment[i], tensor.second_moment[i]);
      parameters[i] = Narrow<PARAMETER>::from(wide);
      if (COPIED) static_cast<COPY*>(tensor.copy)[i] = Narrow<COPY>::from(wide);
    }
  }
}

}  // namespace ridgeline
