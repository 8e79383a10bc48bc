// Building blocks for the tensor cores: shared-memory tiles, fragments and mma.sync products.
//
// A tile holds rows of 16-bit numbers in shared memory, each padded by 16 bytes so that ldmatrix has no bank conflicts.
// mma.sync multiplies A [16 x 16] by B [16 x 8]; lane l of a warp holds row l / 4 and the pair of columns l % 4.
//
// 32-bit elements come as scaled planes (flash_planes.cu): x = factor (high + low), with one power of two as the factor
// of 16 rows and fp16 numbers high and low. fp32 has both planes, at least 22 bits, and is multiplied as high high +
// high low + low high; tf32 has only the first, which is as precise as TF32.
#pragma once

#include "elements.cuh"

namespace ridgeline {

// A number of a plane.
struct tf32 { unsigned short bits; };
struct fp32 { unsigned short bits; };

template <class E>
constexpr int kPlanes = 1;
template <>
constexpr int kPlanes<fp32> = 2;
template <class E>
constexpr bool kScaled = false;
template <>
constexpr bool kScaled<tf32> = true;
template <>
constexpr bool kScaled<fp32> = true;

constexpr int kStep = 16;   // depth of one mma
constexpr int kChunk = 8;   // numbers in 16 bytes

__device__ __forceinline__ int lane() { return threadIdx.x & 31; }
__device__ __forceinline__ int warp() { return threadIdx.x >> 5; }

// Rows of kColumns elements at a shared-memory address; the planes of a row lie side by side.
template <class E, int kColumns>
struct Tile {
  static constexpr int kPlaneBytes = kColumns * 2;
  static constexpr int kRowBytes = kPlanes<E> * kPlaneBytes + 16;
  unsigned address;

  __device__ __forceinline__ unsigned at(int row, int column) const {
    return address + row * kRowBytes + column * 2;
  }
  static constexpr int bytes(int rows) { return rows * kRowBytes; }
};

// ---- shared memory

__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void load_matrices_transposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ float load_float(unsigned address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
  return value;
}
__device__ __forceinline__ void load_floats(float& x, float& y, unsigned address) {
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x), "=f"(y) : "r"(address));
}
__device__ __forceinline__ void load_words(unsigned& x, unsigned& y, unsigned address) {
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(x), "=r"(y) : "r"(address));
}
__device__ __forceinline__ unsigned short load_half(unsigned address) {
  unsigned short value;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(address));
  return value;
}
__device__ __forceinline__ uint4 load_chunk(unsigned address) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address));
  return x;
}
__device__ __forceinline__ void store_float(unsigned address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value));
}
__device__ __forceinline__ void store_word(unsigned address, unsigned value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value));
}
__device__ __forceinline__ void store_half(unsigned address, unsigned short value) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(value));
}

// Starts to copy 16 bytes from global memory (cp.async); complete after wait_for_copies.
__device__ __forceinline__ void copy_chunk(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ __forceinline__ void copy_chunk_or_zeros(unsigned to, const void* from, bool present) {
  const int bytes = present ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }
template <int kGroupsLeft>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
}

// ---- numbers

__device__ __forceinline__ unsigned pack_fp16(float low, float high) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
template <class E>
__device__ __forceinline__ unsigned pack(float low, float high) {
  return pack_fp16(low, high);
}
template <>
__device__ __forceinline__ unsigned pack<bf16>(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
// Number 0 or 1 of a packed pair, in fp32.
template <class E>
__device__ __forceinline__ float unpack(unsigned pair, int number) {
  return widen(E{static_cast<unsigned short>(number == 0 ? pair : pair >> 16)});
}
// What rounding to fp16 cut off from two packed numbers: their low plane.
__device__ __forceinline__ unsigned pack_rest(unsigned packed, float low, float high) {
  return pack_fp16(low - widen(fp16{static_cast<unsigned short>(packed)}),
                   high - widen(fp16{static_cast<unsigned short>(packed >> 16)}));
}

__device__ __forceinline__ float exp2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// ---- fragments

template <class E>
struct FragmentA { unsigned r[kPlanes<E>][4]; };
template <class E>
struct FragmentB { unsigned r[kPlanes<E>][2]; };

// A [16 rows from `row`] x [16 columns from `column`] of a tile.
template <class E, int kColumns>
__device__ __forceinline__ FragmentA<E> load_a(Tile<E, kColumns> tile, int row, int column) {
  FragmentA<E> a;
  const unsigned from = tile.at(row + (lane() & 15), column + (lane() >> 4) * 8);
#pragma unroll
  for (int plane = 0; plane < kPlanes<E>; ++plane) load_matrices(a.r[plane], from + plane * tile.kPlaneBytes);
  return a;
}

// A [16 columns from `column`] x [16 rows from `row`]: a tile that holds A transposed.
template <class E, int kColumns>
__device__ __forceinline__ FragmentA<E> load_a_transposed(Tile<E, kColumns> tile, int row, int column) {
  FragmentA<E> a;
  const unsigned from = tile.at(row + (lane() & 7) + (lane() >> 4) * 8, column + (lane() >> 3 & 1) * 8);
#pragma unroll
  for (int plane = 0; plane < kPlanes<E>; ++plane)
    load_matrices_transposed(a.r[plane], from + plane * tile.kPlaneBytes);
  return a;
}

template <class E>
__device__ __forceinline__ void take_pair(FragmentB<E> (&b)[2], int plane, const unsigned (&r)[4]) {
  b[0].r[plane][0] = r[0], b[0].r[plane][1] = r[1];
  b[1].r[plane][0] = r[2], b[1].r[plane][1] = r[3];
}

// Two adjacent fragments of B, for result columns [n, n + 16): row n of the tile is column n of B.
template <class E, int kColumns>
__device__ __forceinline__ void load_b_pair(FragmentB<E> (&b)[2], Tile<E, kColumns> tile, int n, int depth) {
  const unsigned from = tile.at(n + (lane() & 7) + (lane() >> 4) * 8, depth + (lane() >> 3 & 1) * 8);
#pragma unroll
  for (int plane = 0; plane < kPlanes<E>; ++plane) {
    unsigned r[4];
    load_matrices(r, from + plane * tile.kPlaneBytes);
    take_pair(b, plane, r);
  }
}

// The same where rows of the tile are the depth of the product.
template <class E, int kColumns>
__device__ __forceinline__ void load_b_pair_transposed(FragmentB<E> (&b)[2], Tile<E, kColumns> tile,
                                                       int depth, int n) {
  const unsigned from = tile.at(depth + (lane() & 15), n + (lane() >> 4) * 8);
#pragma unroll
  for (int plane = 0; plane < kPlanes<E>; ++plane) {
    unsigned r[4];
    load_matrices_transposed(r, from + plane * tile.kPlaneBytes);
    take_pair(b, plane, r);
  }
}

// ---- products

// A 16 x 8 result, of which a lane holds rows lane / 4 and lane / 4 + 8, columns 2 (lane % 4) and the next.
struct Accumulator { float v[4]; };

#define RIDGELINE_MMA(types, d, a, b)                                                       \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." types ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "  \
      "{%8,%9}, {%0,%1,%2,%3};"                                                             \
      : "+f"(d.v[0]), "+f"(d.v[1]), "+f"(d.v[2]), "+f"(d.v[3])                              \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <class E>
__device__ __forceinline__ void multiply(Accumulator& d, const FragmentA<E>& a, const FragmentB<E>& b) {
  if constexpr (kPlanes<E> == 2) {
    RIDGELINE_MMA("f16.f16", d, a.r[1], b.r[0]);
    RIDGELINE_MMA("f16.f16", d, a.r[0], b.r[1]);
  }
  RIDGELINE_MMA("f16.f16", d, a.r[0], b.r[0]);
}
template <>
__device__ __forceinline__ void multiply(Accumulator& d, const FragmentA<bf16>& a, const FragmentB<bf16>& b) {
  RIDGELINE_MMA("bf16.bf16", d, a.r[0], b.r[0]);
}

// A factor of 1 at every step.
struct NoFactor {};
template <class Factor>
constexpr bool kIsFactor = true;
template <>
constexpr bool kIsFactor<NoFactor> = false;

// result[m][n] += sum over steps of factor(m, step) A(m, step) B(step, n). Each fragment is loaded while the product
// before it runs: load_a(fragments of a step, step), load_b(pair of fragments, step, first of two n).
//
// Tensor cores truncate their sums. With two planes, each step therefore has a fresh accumulator that is added in fp32
// with rounding, which keeps long sums as exact as fp32 arithmetic does; the factor is applied there.
template <class E, int kSteps, bool kAheadA = true, int kM, int kTiles, class LoadA, class LoadB,
          class Factor = NoFactor>
__device__ __forceinline__ void multiply_tiles(Accumulator (&result)[kM][kTiles], LoadA load_a, LoadB load_b,
                                               Factor factor = {}) {
  static_assert(kTiles % 2 == 0);
  constexpr bool kFactor = kScaled<E> && kIsFactor<Factor>;
  FragmentA<E> a[2][kM];
  FragmentB<E> b[2][2];
  load_a(a[0], 0);
  load_b(b[0], 0, 0);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (!kAheadA && step > 0) load_a(a[step % 2], step);
    float f[kM] = {};
    if constexpr (kFactor)
#pragma unroll
      for (int m = 0; m < kM; ++m) f[m] = factor(m, step);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      const int now = (step * kTiles + n) / 2 % 2;
      if (n + 2 < kTiles) {
        load_b(b[1 - now], step, n + 2);
      } else if (step + 1 < kSteps) {
        if (kAheadA) load_a(a[(step + 1) % 2], step + 1);
        load_b(b[1 - now], step + 1, 0);
      }
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Accumulator& sum = result[m][n + half];
          if constexpr (kPlanes<E> == 2 || kFactor) {
            Accumulator part = {};
            multiply(part, a[step % 2][m], b[now][half]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              if constexpr (kFactor) {
                sum.v[i] += part.v[i] * f[m];
              } else {
                sum.v[i] += part.v[i];
              }
            }
          } else {
            multiply(sum, a[step % 2][m], b[now][half]);
          }
        }
    }
  }
}

// Packs results as the left operand, at step `k` of the depth, of the next product.
template <class E, int kCount>
__device__ __forceinline__ FragmentA<E> a_from_results(const Accumulator (&results)[kCount], int k) {
  FragmentA<E> a;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float low = results[2 * k + i / 2].v[i % 2 * 2], high = results[2 * k + i / 2].v[i % 2 * 2 + 1];
    a.r[0][i] = pack<E>(low, high);
    if constexpr (kPlanes<E> == 2) a.r[1][i] = pack_rest(a.r[0][i], low, high);
  }
  return a;
}

// Stores two adjacent results of a row in the tile's element type.
template <class E, class To>
__device__ __forceinline__ void store_pair(To tile, int row, int column, float x, float y) {
  const unsigned packed = pack<E>(x, y);
  store_word(tile.at(row, column), packed);
  if constexpr (kPlanes<E> == 2) store_word(tile.at(row, column) + tile.kPlaneBytes, pack_rest(packed, x, y));
}

// ---- reductions over lanes

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
  return x;
}

// The power of two that scales a magnitude into [2^14, 2^15), the top of fp16's range: 1 for 0, infinity and NaN, and
// never more than fp32 can invert. inverse_power returns its inverse.
__device__ __forceinline__ float scale_to_top(float magnitude) {
  const int exponent = int(__float_as_uint(magnitude) >> 23 & 255);
  if (magnitude == 0 || exponent == 255) return 1;
  const int wanted = 14 + 2 * 127 - exponent;
  return __uint_as_float(unsigned(wanted > 253 ? 253 : wanted) << 23);
}
__device__ __forceinline__ float inverse_power(float power) {
  return __uint_as_float(254u * (1u << 23) - __float_as_uint(power));
}

}  // namespace ridgeline
