// Converts eight adjacent results of a row, two per instruction.
#pragma once

#include "fragments.cuh"

namespace ridgeline {

template <class E>
__device__ __forceinline__ Pack<E, 8> narrow_pack(const float (&x)[8]) {
  Pack<E, 8> result;
  result.word = {pack<E>(x[0], x[1]), pack<E>(x[2], x[3]), pack<E>(x[4], x[5]), pack<E>(x[6], x[7])};
  return result;
}

}  // namespace ridgeline
