// Products of a warpgroup, four warps together, on Hopper (wgmma): operands lie in shared memory, the left one
// perhaps in registers, and products run on their own until somebody waits for them.
//
// A warpgroup multiplies A [64 x 16] by B [16 x N]. Its results are those of mma.sync: warp w holds rows 16 w to
// 16 w + 15, in Accumulators side by side; so what follows a product reads the same for both.
#pragma once

#include "fragments.cuh"

namespace ridgeline {

constexpr int kPanel = 64;  // columns of a panel: 128 bytes a row

// Rows of 16-bit numbers, in panels of 64 columns one behind the other. Within a panel the eight chunks of a row
// change places by the row's number, as the tensor cores expect it ("128-byte swizzle"); nobody meets a bank twice.
template <int kRows, int kColumns>
struct Panels {
  static constexpr int kRowBytes = 2 * kPanel;
  static constexpr int kPanelBytes = kRows * kRowBytes;
  static constexpr int kBytes = (kColumns + kPanel - 1) / kPanel * kPanelBytes;
  unsigned address;  // a multiple of 1024

  __device__ __forceinline__ unsigned at(int row, int column) const {
    return address + column / kPanel * kPanelBytes + row * kRowBytes + ((column / kChunk ^ row) & 7) * 16 +
           column % kChunk * 2;
  }

  // Where an operand begins, for the tensor cores; `panels`: bytes between panels, where an operand has several.
  __device__ __forceinline__ static unsigned long long descriptor(unsigned place, int panels) {
    constexpr unsigned long long kSwizzle128 = 1ull << 62, kGroups = (8ull * kRowBytes >> 4) << 32;
    return kSwizzle128 | kGroups | static_cast<unsigned long long>(panels >> 4) << 16 | (place & 0x3ffff) >> 4;
  }
  // Rows from `row` on, with the 16 columns from `column` as depth.
  __device__ __forceinline__ unsigned long long rows_from(int row, int column) const {
    return descriptor(address + column / kPanel * kPanelBytes + row * kRowBytes + column % kPanel * 2, 16);
  }
  // Columns from `column` on, a multiple of 64, with the 16 rows from `row` as depth.
  __device__ __forceinline__ unsigned long long columns_from(int column, int row) const {
    return descriptor(address + column / kPanel * kPanelBytes + row * kRowBytes, kPanelBytes);
  }
};

// ---- order: begin_products before registers that were written enter a product; end_products makes a group of all
// products since the last; wait_for_products leaves that many groups at work.

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kGroupsLeft>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroupsLeft) : "memory");
}
// The compiler does not know that results arrive late: nothing that reads or writes them moves across this.
template <int kTiles>
__device__ __forceinline__ void settle(Accumulator (&results)[kTiles]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(results[n].v[i])::"memory");
}
// What threads wrote to shared memory, or copied there, is seen by products that begin after the next barrier.
__device__ __forceinline__ void publish_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- one step of 16 in depth

#define RIDGELINE_TILE(d, n) "+f"(d[n].v[0]), "+f"(d[n].v[1]), "+f"(d[n].v[2]), "+f"(d[n].v[3])
#define RIDGELINE_TILES_4(d, n) \
  RIDGELINE_TILE(d, n), RIDGELINE_TILE(d, n + 1), RIDGELINE_TILE(d, n + 2), RIDGELINE_TILE(d, n + 3)
#define RIDGELINE_TILES_8(d) RIDGELINE_TILES_4(d, 0), RIDGELINE_TILES_4(d, 4)
#define RIDGELINE_TILES_16(d) RIDGELINE_TILES_8(d), RIDGELINE_TILES_4(d, 8), RIDGELINE_TILES_4(d, 12)
#define RIDGELINE_NAMES_8                                                                            \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
  "%28,%29,%30,%31}"
#define RIDGELINE_NAMES_16                                                                           \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
  "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53," \
  "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"

// `operands` names what stands behind the results: whether to add, then A, B and which of them lie transposed.
#define RIDGELINE_WGMMA(n, types, names, tiles, add, operands, ...)                                                \
  asm volatile("{.reg .pred p; setp.ne.b32 p, " add ", 0;\n"                                                       \
               "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." types " " names ", " operands ";}"                 \
               : tiles                                                                                             \
               : __VA_ARGS__                                                                                       \
               : "memory")
#define RIDGELINE_WGMMA_8(types, operands, ...) \
  RIDGELINE_WGMMA("64", types, RIDGELINE_NAMES_8, RIDGELINE_TILES_8(d), "%32", operands, __VA_ARGS__)
#define RIDGELINE_WGMMA_16(types, operands, ...) \
  RIDGELINE_WGMMA("128", types, RIDGELINE_NAMES_16, RIDGELINE_TILES_16(d), "%64", operands, __VA_ARGS__)

template <class E>
constexpr bool kIsBf16 = false;
template <>
constexpr bool kIsBf16<bf16> = true;

// d = A B, or if `add` d += A B. Transposed operands come from columns_from, others from rows_from.
template <class E, bool kTransposedA, bool kTransposedB, int kTiles>
__device__ __forceinline__ void multiply_shared(Accumulator (&d)[kTiles], unsigned long long a, unsigned long long b,
                                                bool add) {
  static_assert(kTiles == 8 || kTiles == 16);
#define RIDGELINE_INPUTS "r"(int(add)), "l"(a), "l"(b), "n"(int(kTransposedA)), "n"(int(kTransposedB))
  if constexpr (kTiles == 8 && kIsBf16<E>) {
    RIDGELINE_WGMMA_8("bf16.bf16", "%33, %34, p, 1, 1, %35, %36", RIDGELINE_INPUTS);
  } else if constexpr (kTiles == 8) {
    RIDGELINE_WGMMA_8("f16.f16", "%33, %34, p, 1, 1, %35, %36", RIDGELINE_INPUTS);
  } else if constexpr (kIsBf16<E>) {
    RIDGELINE_WGMMA_16("bf16.bf16", "%65, %66, p, 1, 1, %67, %68", RIDGELINE_INPUTS);
  } else {
    RIDGELINE_WGMMA_16("f16.f16", "%65, %66, p, 1, 1, %67, %68", RIDGELINE_INPUTS);
  }
#undef RIDGELINE_INPUTS
}

// The same with A in registers.
template <class E, bool kTransposedB, int kTiles>
__device__ __forceinline__ void multiply_registers(Accumulator (&d)[kTiles], const FragmentA<E>& a,
                                                   unsigned long long b, bool add) {
  static_assert(kTiles == 8 || kTiles == 16);
#define RIDGELINE_INPUTS \
  "r"(int(add)), "r"(a.r[0][0]), "r"(a.r[0][1]), "r"(a.r[0][2]), "r"(a.r[0][3]), "l"(b), "n"(int(kTransposedB))
  if constexpr (kTiles == 8 && kIsBf16<E>) {
    RIDGELINE_WGMMA_8("bf16.bf16", "{%33,%34,%35,%36}, %37, p, 1, 1, %38", RIDGELINE_INPUTS);
  } else if constexpr (kTiles == 8) {
    RIDGELINE_WGMMA_8("f16.f16", "{%33,%34,%35,%36}, %37, p, 1, 1, %38", RIDGELINE_INPUTS);
  } else if constexpr (kIsBf16<E>) {
    RIDGELINE_WGMMA_16("bf16.bf16", "{%65,%66,%67,%68}, %69, p, 1, 1, %70", RIDGELINE_INPUTS);
  } else {
    RIDGELINE_WGMMA_16("f16.f16", "{%65,%66,%67,%68}, %69, p, 1, 1, %70", RIDGELINE_INPUTS);
  }
#undef RIDGELINE_INPUTS
}

// ---- sums to global memory, on their own

// Before the staging memory of additions is used again, and at the end.
__device__ __forceinline__ void wait_for_additions() {
  if (lane() == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  __syncwarp();
}

// Adds the accumulators of a warp to kTiles * 128 floats at `to`, through as many at `staging`.
template <int kTiles>
__device__ __forceinline__ void add_shared(float* to, const Accumulator (&sums)[kTiles], unsigned staging) {
  wait_for_additions();
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
    asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(staging + 512 * n + 16 * lane()), "f"(sums[n].v[0]),
                 "f"(sums[n].v[1]), "f"(sums[n].v[2]), "f"(sums[n].v[3])
                 : "memory");
  publish_shared();
  __syncwarp();
  if (lane() == 0)
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
        "cp.async.bulk.commit_group;" ::"l"(to), "r"(staging), "n"(512 * kTiles)
        : "memory");
}

// A fragment of A to a tile of the same rows and columns.
template <class E, class To>
__device__ __forceinline__ void store_a(To tile, int row, int column, const FragmentA<E>& a) {
  const unsigned to = tile.at(row + (lane() & 15), column + (lane() >> 4) * 8);
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a.r[0][0]),
               "r"(a.r[0][1]), "r"(a.r[0][2]), "r"(a.r[0][3])
               : "memory");
}

}  // namespace ridgeline
