// Building blocks of the Hopper kernels: wgmma products, named barriers, mbarriers and rings of tiles between producers
// and consumers.
//
// A warpgroup, four warps, multiplies A [64 x 16] by B [16 x N] asynchronously. B is in shared memory, A there or in
// registers. The results have the layout of mma.sync: warp w holds rows 16 w to 16 w + 15, in adjacent Accumulators, so
// what follows a product is the same for both instructions.
#pragma once

#include "fragments.cuh"

namespace ridgeline {

constexpr int kWarpgroup = 128;  // threads
constexpr int kPanel = 64;       // columns of a panel: rows of 128 bytes

// The shared-memory descriptor of a wgmma operand in panels: 16 in depth, and N rows or, transposed, N columns.
template <int kPanelBytes, bool kIsTransposed>
struct Operand {
  static constexpr bool kTransposed = kIsTransposed;
  unsigned long long bits;

  __device__ __forceinline__ explicit Operand(unsigned place) {
    constexpr unsigned long long kSwizzle128 = 1ull << 62, kGroups = (8ull * 2 * kPanel >> 4) << 32;
    constexpr unsigned long long kPanels = (kTransposed ? kPanelBytes : 16) >> 4 << 16;
    bits = kSwizzle128 | kGroups | kPanels | (place & 0x3ffff) >> 4;
  }
  // Moves on by `tiles` times eight rows or columns.
  __device__ __forceinline__ Operand after(int tiles) const {
    Operand later = *this;
    later.bits += (kTransposed ? tiles / 8 * kPanelBytes + tiles % 8 * 16 : tiles * 8 * 2 * kPanel) >> 4;
    return later;
  }
};

// Rows of 16-bit numbers, in panels of 64 columns one after the other. Within a panel the eight 16-byte chunks of a row
// are permuted by the row's number ("128-byte swizzle"), as wgmma and TMA expect; accesses have no bank conflicts.
template <int kRows, int kColumns>
struct Panels {
  static constexpr int kHeight = kRows;
  static constexpr int kRowBytes = 2 * kPanel;
  static constexpr int kPanelBytes = kRows * kRowBytes;
  static constexpr int kBytes = (kColumns + kPanel - 1) / kPanel * kPanelBytes;
  unsigned address;  // a multiple of 1024

  __device__ __forceinline__ unsigned at(int row, int column) const {
    return address + column / kPanel * kPanelBytes + row * kRowBytes + ((column / kChunk ^ row) & 7) * 16 +
           column % kChunk * 2;
  }

  // The rows from `row` on, a multiple of 8, with the 16 columns from `column` as depth.
  __device__ __forceinline__ Operand<kPanelBytes, false> rows_from(int row, int column) const {
    return Operand<kPanelBytes, false>(address + column / kPanel * kPanelBytes + row * kRowBytes + column % kPanel * 2);
  }
  // The columns from `column` on, a multiple of 64, with the 16 rows from `row` as depth.
  __device__ __forceinline__ Operand<kPanelBytes, true> columns_from(int column, int row) const {
    return Operand<kPanelBytes, true>(address + column / kPanel * kPanelBytes + row * kRowBytes);
  }
};

// ---- the order of wgmma: wgmma_fence comes before products that read or add to registers just written, wgmma_commit
// commits all products since the last one as a group, wgmma_wait waits until at most kGroupsLeft groups are in flight

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kGroupsLeft>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroupsLeft) : "memory");
}
// Keeps the compiler from moving accesses to results of wgmma, which are written asynchronously, across this point.
template <int kTiles>
__device__ __forceinline__ void fence_registers(Accumulator (&results)[kTiles]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(results[n].v[i])::"memory");
}
// Orders accesses to shared memory by this thread before products that read it and TMA copies that write it (async
// proxy); called before the barrier that separates the two.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- products, 16 in depth

#define RIDGELINE_TILE(n) "+f"(d[n].v[0]), "+f"(d[n].v[1]), "+f"(d[n].v[2]), "+f"(d[n].v[3])
#define RIDGELINE_TILES_2(n) RIDGELINE_TILE(n), RIDGELINE_TILE(n + 1)
#define RIDGELINE_TILES_4(n) RIDGELINE_TILES_2(n), RIDGELINE_TILES_2(n + 2)
#define RIDGELINE_TILES_6(n) RIDGELINE_TILES_4(n), RIDGELINE_TILES_2(n + 4)
#define RIDGELINE_TILES_8(n) RIDGELINE_TILES_4(n), RIDGELINE_TILES_4(n + 4)
#define RIDGELINE_TILES_10(n) RIDGELINE_TILES_8(n), RIDGELINE_TILES_2(n + 8)
#define RIDGELINE_TILES_12(n) RIDGELINE_TILES_8(n), RIDGELINE_TILES_4(n + 8)
#define RIDGELINE_TILES_14(n) RIDGELINE_TILES_8(n), RIDGELINE_TILES_6(n + 8)
#define RIDGELINE_TILES_16(n) RIDGELINE_TILES_8(n), RIDGELINE_TILES_8(n + 8)
#define RIDGELINE_TILES_24(n) RIDGELINE_TILES_16(n), RIDGELINE_TILES_8(n + 16)
#define RIDGELINE_NAMES_2 "%0,%1,%2,%3,%4,%5,%6,%7"
#define RIDGELINE_NAMES_4 RIDGELINE_NAMES_2 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define RIDGELINE_NAMES_6 RIDGELINE_NAMES_4 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define RIDGELINE_NAMES_8 RIDGELINE_NAMES_6 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define RIDGELINE_NAMES_10 RIDGELINE_NAMES_8 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define RIDGELINE_NAMES_12 RIDGELINE_NAMES_10 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define RIDGELINE_NAMES_14 RIDGELINE_NAMES_12 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define RIDGELINE_NAMES_16 RIDGELINE_NAMES_14 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define RIDGELINE_NAMES_24                                                                                   \
  RIDGELINE_NAMES_16 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84," \
                     "%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"

#define RIDGELINE_WGMMA(tiles, columns, types, add, operands, ...)                          \
  asm volatile("{.reg .pred p; setp.ne.b32 p, " add ", 0;\n"                                \
               "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." types                 \
               " {" RIDGELINE_NAMES_##tiles "}, " operands ";}"                             \
               : RIDGELINE_TILES_##tiles(kFirst)                                            \
               : __VA_ARGS__                                                                \
               : "memory")
// Issues the product if it has that many tiles. `add` and `operands` name the inputs that follow the results: whether
// to add, A, B, and which of them are transposed.
#define RIDGELINE_PRODUCT(tiles, columns, add, operands, ...)                      \
  if constexpr (kCount == tiles && kIsBf16<E>)                                     \
    RIDGELINE_WGMMA(tiles, columns, "bf16.bf16", add, operands, __VA_ARGS__);      \
  else if constexpr (kCount == tiles)                                              \
    RIDGELINE_WGMMA(tiles, columns, "f16.f16", add, operands, __VA_ARGS__)

template <class E>
constexpr bool kIsBf16 = false;
template <>
constexpr bool kIsBf16<bf16> = true;

// Returns how many of the remaining tiles one instruction computes.
constexpr int tiles_at_once(int left, int most) {
  for (int tiles : {24, 16, 14, 12, 10, 8, 6, 4})
    if (tiles <= most && (left == tiles || (left > tiles && (tiles == 16 || tiles == 8)))) return tiles;
  return 2;
}

// d = A B, or d += A B if `add`: the tiles of d from kFirst on, at most kMost per instruction.
template <class E, int kFirst = 0, int kMost = 16, int kTiles, class A, class B>
__device__ __forceinline__ void multiply_shared(Accumulator (&d)[kTiles], A a, B b, bool add) {
  constexpr int kCount = tiles_at_once(kTiles - kFirst, kMost);
  const unsigned long long right = b.after(kFirst).bits;
#define RIDGELINE_INPUTS "r"(int(add)), "l"(a.bits), "l"(right), "n"(int(A::kTransposed)), "n"(int(B::kTransposed))
  RIDGELINE_PRODUCT(2, "16", "%8", "%9, %10, p, 1, 1, %11, %12", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(4, "32", "%16", "%17, %18, p, 1, 1, %19, %20", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(6, "48", "%24", "%25, %26, p, 1, 1, %27, %28", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(8, "64", "%32", "%33, %34, p, 1, 1, %35, %36", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(10, "80", "%40", "%41, %42, p, 1, 1, %43, %44", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(12, "96", "%48", "%49, %50, p, 1, 1, %51, %52", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(14, "112", "%56", "%57, %58, p, 1, 1, %59, %60", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(16, "128", "%64", "%65, %66, p, 1, 1, %67, %68", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(24, "192", "%96", "%97, %98, p, 1, 1, %99, %100", RIDGELINE_INPUTS);
#undef RIDGELINE_INPUTS
  if constexpr (kFirst + kCount < kTiles) multiply_shared<E, kFirst + kCount, kMost>(d, a, b, add);
}

// The same with A in registers.
template <class E, int kFirst = 0, int kTiles, class B>
__device__ __forceinline__ void multiply_registers(Accumulator (&d)[kTiles], const FragmentA<E>& a, B b, bool add) {
  constexpr int kCount = tiles_at_once(kTiles - kFirst, 16);
  const unsigned long long right = b.after(kFirst).bits;
#define RIDGELINE_INPUTS \
  "r"(int(add)), "r"(a.r[0][0]), "r"(a.r[0][1]), "r"(a.r[0][2]), "r"(a.r[0][3]), "l"(right), "n"(int(B::kTransposed))
  RIDGELINE_PRODUCT(2, "16", "%8", "{%9,%10,%11,%12}, %13, p, 1, 1, %14", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(4, "32", "%16", "{%17,%18,%19,%20}, %21, p, 1, 1, %22", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(6, "48", "%24", "{%25,%26,%27,%28}, %29, p, 1, 1, %30", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(8, "64", "%32", "{%33,%34,%35,%36}, %37, p, 1, 1, %38", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(10, "80", "%40", "{%41,%42,%43,%44}, %45, p, 1, 1, %46", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(12, "96", "%48", "{%49,%50,%51,%52}, %53, p, 1, 1, %54", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(14, "112", "%56", "{%57,%58,%59,%60}, %61, p, 1, 1, %62", RIDGELINE_INPUTS);
  RIDGELINE_PRODUCT(16, "128", "%64", "{%65,%66,%67,%68}, %69, p, 1, 1, %70", RIDGELINE_INPUTS);
#undef RIDGELINE_INPUTS
  if constexpr (kFirst + kCount < kTiles) multiply_registers<E, kFirst + kCount>(d, a, b, add);
}

// ---- warp specialisation

// Sets the registers of each thread of a warpgroup (setmaxnreg), a multiple of 8. All warpgroups of a block together
// keep within what the block was launched with.
template <int kRegisters>
__device__ __forceinline__ void decrease_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void increase_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// The warpgroup of this thread, in a form that the compiler knows to be uniform in a warp.
__device__ __forceinline__ int warpgroup_number() { return __shfl_sync(~0u, warp() / 4, 0); }

// Waits at named barrier `number`, 1 to 15, until `threads` threads have arrived.
__device__ __forceinline__ void barrier_wait(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
// Arrives at named barrier `number` without waiting.
__device__ __forceinline__ void barrier_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// An mbarrier: eight bytes of shared memory that count arrivals. When all have arrived, the phase completes and the
// next one begins.
struct MBarrier {
  unsigned address;

  __device__ __forceinline__ void set_up(int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  }
  __device__ __forceinline__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  }
  // Arrives, and makes the phase wait for `bytes` bytes of copies as well.
  __device__ __forceinline__ void arrive_and_expect(int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
  }
  // Waits until phase number `phase` has completed; the phase before the first counts as completed.
  __device__ __forceinline__ void wait(int phase) const {
    asm volatile(
        "{.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;}" ::"r"(address),
        "r"(phase & 1)
        : "memory");
  }
};

// A ring of kStages tiles between producers, a thread that issues copies or a warpgroup that computes the tiles, and
// consumer warpgroups. Each stage has two mbarriers, `full` and `empty`.
//
// One lane arrives for its warp, after a __syncwarp that orders the accesses of the other lanes. NVIDIA's race checker
// orders only those of the arriving thread, so all lanes arrive (kEveryLane) where they read shared memory by plain
// loads; wgmma reads through the async proxy, which the checker ignores.
template <class Tile, int kStages, bool kEveryLane = false>
struct TileRing {
  static constexpr int kLanes = kEveryLane ? 32 : 1;
  static constexpr int kTileBytes = kStages * Tile::kBytes;
  static constexpr int kBarrierBytes = 2 * kStages * 8;
  unsigned tiles, barriers;

  __device__ __forceinline__ MBarrier full(int step) const { return {barriers + step % kStages * 16}; }
  __device__ __forceinline__ MBarrier empty(int step) const { return {barriers + step % kStages * 16 + 8}; }
  __device__ __forceinline__ Tile tile(int step) const { return {tiles + step % kStages * Tile::kBytes}; }

  // Called by one thread before the ring is used. `producers`: 1 if a thread copies, else computing warps times kLanes.
  __device__ __forceinline__ void set_up(int producers, int consumer_warps) const {
    for (int i = 0; i < kStages; ++i) full(i).set_up(producers), empty(i).set_up(consumer_warps * kLanes);
  }
  // Producer thread: waits until the tile is free, then copy(tile, barrier) starts copies of `bytes` in all.
  template <class Copy>
  __device__ __forceinline__ void fill(int step, int bytes, Copy copy) const {
    empty(step).wait(step / kStages - 1);
    full(step).arrive_and_expect(bytes);
    copy(tile(step), full(step));
  }
  // Producer warpgroup: acquire_empty() waits for an empty tile, commit_full() makes it available once it is written.
  __device__ __forceinline__ Tile acquire_empty(int step) const {
    empty(step).wait(step / kStages - 1);
    return tile(step);
  }
  __device__ __forceinline__ void commit_full(int step) const {
    fence_async_proxy();
    arrive(full(step));
  }
  // Consumers: wait_full() waits for a tile, release() frees it when the products that read it are done.
  __device__ __forceinline__ Tile wait_full(int step) const {
    full(step).wait(step / kStages);
    return tile(step);
  }
  __device__ __forceinline__ void release(int step) const { arrive(empty(step)); }

 private:
  __device__ __forceinline__ static void arrive(MBarrier barrier) {
    if constexpr (!kEveryLane) __syncwarp();
    if (kEveryLane || lane() == 0) barrier.arrive();
  }
};

// A ring whose tiles and barriers follow those of another.
template <class Ring, class Other>
__device__ __forceinline__ Ring ring_after(const Other& other) {
  return {other.tiles + Other::kTileBytes, other.barriers + Other::kBarrierBytes};
}

// ---- accumulators and fragments to shared memory, and asynchronous additions from there to global memory

__device__ __forceinline__ void store_accumulator(unsigned to, const Accumulator& x) {
  asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(to), "f"(x.v[0]), "f"(x.v[1]), "f"(x.v[2]), "f"(x.v[3])
               : "memory");
}
__device__ __forceinline__ Accumulator load_accumulator(unsigned from) {
  Accumulator x;
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(x.v[0]), "=f"(x.v[1]), "=f"(x.v[2]), "=f"(x.v[3])
               : "r"(from)
               : "memory");
  return x;
}

// Stores a fragment of A to the same rows and columns of a tile (stmatrix).
template <class E, class To>
__device__ __forceinline__ void store_a(To tile, int row, int column, const FragmentA<E>& a) {
  const unsigned to = tile.at(row + (lane() & 15), column + (lane() >> 4) * 8);
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a.r[0][0]),
               "r"(a.r[0][1]), "r"(a.r[0][2]), "r"(a.r[0][3])
               : "memory");
}

// Loads what store_a stored, to the same lanes.
template <class E, class From>
__device__ __forceinline__ void load_stored_a(FragmentA<E>& a, From tile, int row, int column) {
  load_matrices(a.r[0], tile.at(row + (lane() & 15), column + (lane() >> 4) * 8));
}

// Waits until the additions and stores of this warp have read their staging memory; with kCompleted until later ones,
// and loads by this warp, come after their results.
template <bool kCompleted = false>
__device__ __forceinline__ void wait_for_additions() {
  if (lane() == 0) {
    if constexpr (kCompleted)
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    else
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncwarp();
}

// Starts to add the first kCount accumulators of a warp, staged at `staging`, to kCount * 128 floats at `to`, or to
// store them there.
template <int kCount, int kTiles>
__device__ __forceinline__ void add_shared(float* to, const Accumulator (&sums)[kTiles],
                                           unsigned staging, bool stores = false) {
  wait_for_additions();
#pragma unroll
  for (int n = 0; n < kCount; ++n) store_accumulator(staging + 512 * n + 16 * lane(), sums[n]);
  fence_async_proxy();
  __syncwarp();
  if (lane() != 0) return;
  if (stores)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(staging), "n"(512 * kCount)
                 : "memory");
  else
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
        "r"(staging), "n"(512 * kCount)
        : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

}  // namespace ridgeline
