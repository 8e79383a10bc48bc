// One AdamW step over many tensors: a block updates PIECE elements of one of them.
//
// Constants: PARAMETER, GRADIENT (element types), PACK (elements of one access; 1: gradients may have a stride), PIECE
// (elements of a block), THREADS, COPIED (1: parameters are also written as COPY), and those of adamw.cuh.
#include "adamw.cuh"
#include "elements.cuh"
#include "tensor_list.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS) adamw(const __grid_constant__ AdamWParams p) {
  wait_for_earlier_kernels();
  const auto& tensor = p.tensors[tensor_of_block(p.tensors, p.count)];
  const Factors f = factors_of(p.numbers);
  if (f.skips()) return;
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
        step(p.numbers, f, wide, widen(gradient.at[i]), m.at[i], v.at[i]);
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
      step(p.numbers, f, wide, gradient, tensor.first_moment[i], tensor.second_moment[i]);
      parameters[i] = Narrow<PARAMETER>::from(wide);
      if (COPIED) static_cast<COPY*>(tensor.copy)[i] = Narrow<COPY>::from(wide);
    }
  }
}

}  // namespace ridgeline
