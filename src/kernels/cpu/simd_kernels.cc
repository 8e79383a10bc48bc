#include "kernels/cpu/simd_kernels.h"

namespace ridgeline {

const SimdKernels& simd_kernels(Isa isa) {
  switch (isa) {
    case Isa::portable:
      break;
    case Isa::avx2:
      return avx2::kSimdKernels;
    case Isa::avx512:
    case Isa::avx512_bf16:
    case Isa::amx:
      return avx512::kSimdKernels;
  }
  return portable::kSimdKernels;
}

}  // namespace ridgeline
