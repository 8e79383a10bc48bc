#include "kernels/cpu/simd_kernels.h"

namespace ridgeline {

const SimdKernels& simd_kernels(Isa isa) {
  return pick(isa, portable::kSimdKernels, avx2::kSimdKernels, avx512::kSimdKernels);
}

}  // namespace ridgeline
