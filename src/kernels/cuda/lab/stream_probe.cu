// Memory bandwidth: to = a (copy) or to = a + 3 b (triad), 16 bytes at a time, in several passes where the arrays are
// in a cache and one pass would be shorter than its launch.
//
// Constants: TRIAD (0 or 1), THREADS, PACKS (of 16 bytes, for each thread).
#include "elements.cuh"
#include "params.h"

namespace ridgeline {

// Bypasses the L1 cache; volatile, so that no pass is optimised away.
__device__ __forceinline__ float4 load(const void* array, int64 at) {
  float4 value;
  asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(static_cast<const float4*>(array) + at));
  return value;
}

__device__ __forceinline__ void store(void* array, int64 at, float4 value) {
  asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(static_cast<float4*>(array) + at),
               "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    stream_probe(const __grid_constant__ StreamParams p) {
  wait_for_earlier_kernels();
  const int64 first = static_cast<int64>(blockIdx.x) * THREADS * PACKS + threadIdx.x;
  for (int pass = 0; pass < p.passes; ++pass) {
    float4 values[PACKS];
#pragma unroll
    for (int i = 0; i < PACKS; ++i) {
      const int64 at = first + i * THREADS;
      if (at < p.count) values[i] = load(p.a, at);
    }
#if TRIAD
#pragma unroll
    for (int i = 0; i < PACKS; ++i) {
      const int64 at = first + i * THREADS;
      if (at >= p.count) continue;
      const float4 b = load(p.b, at);
      values[i].x += 3 * b.x;
      values[i].y += 3 * b.y;
      values[i].z += 3 * b.z;
      values[i].w += 3 * b.w;
    }
#endif
#pragma unroll
    for (int i = 0; i < PACKS; ++i) {
      const int64 at = first + i * THREADS;
      if (at < p.count) store(p.to, at, values[i]);
    }
  }
}

}  // namespace ridgeline
