// Products of 16-bit matrices on Hopper, with pointwise work on their sums before these reach memory.
//
// Two blocks of a cluster compute tiles one above the other. Each has its own rows of the left matrix copied, and half of
// the columns that both need, for both. In a block one thread has tiles copied, as far ahead as there is room, two
// warpgroups multiply, and other warps work on the sums of a tile while those go on with the next one.
//
// Constants: ELEMENT (bf16 or fp16), COLUMNS (of a tile), STAGES (steps in depth in shared memory), LEFT_DEEP and RIGHT_DEEP
// (1: neighbours in memory lie along the depth, 0: across it), TOGETHER (packs whose operands a thread asks for at once), PAIRED
// (1: a tile's second half of columns lies p.pair columns behind its first).
//
// The text before this one declares what becomes of sums (emit_product.cc):
//   struct Operands;                                      what eight columns read besides their sums
//   Operands load_operands(const ProductParams&, int64 row, int column);
//   void finish_pack(const ProductParams&, const Operands&, const char* sums, int64 row, int column);
// and PRODUCT_KERNEL, the name of the kernel.
#pragma once

#include "cluster.cuh"
#include "tensor_map.cuh"

namespace ridgeline {

constexpr int kTileRows = 128, kTileColumns = COLUMNS, kDepth = 64, kPack = 8;
constexpr int kThreads = 4 * kWarpgroup;
constexpr int kMultiplying = 8, kFinishing = 7;  // warps, followed by the one that has tiles copied
constexpr int kMultiplyingRegisters = 152, kOtherRegisters = 104;
constexpr int kBlocks = 2;  // of a cluster
constexpr int kTogether = TOGETHER;

template <bool kFirst, class A, class B>
struct Either {
  using Type = A;
};
template <class A, class B>
struct Either<false, A, B> {
  using Type = B;
};
using Left = Either<LEFT_DEEP, Panels<kTileRows, kDepth>, Panels<kDepth, kTileRows>>::Type;
using Right = Either<RIGHT_DEEP, Panels<kTileColumns, kDepth>, Panels<kDepth, kTileColumns>>::Type;

// A step in depth of both operands.
struct Stage {
  static constexpr int kBytes = Left::kBytes + Right::kBytes;
  unsigned address;
  __device__ __forceinline__ Left left() const { return {address}; }
  __device__ __forceinline__ Right right() const { return {address + Left::kBytes}; }
};
using Ring = TileRing<Stage, STAGES>;
// Sums on their way from those who multiply to those who finish. Its readers use plain loads.
struct Sums : Tile<ELEMENT, kTileColumns> {
  static constexpr int kBytes = Tile::bytes(kTileRows);
};
using SumsRing = TileRing<Sums, 1, true>;

// The tiles of a cluster: pairs, one above the other; those that read the same columns come together.
struct ClusterTiles {
  const ProductParams& p;
  int pair = blockIdx.x / kBlocks;
  int round = 0;

  __device__ __forceinline__ explicit ClusterTiles(const ProductParams& params) : p(params) {}
  __device__ __forceinline__ bool more() const { return pair < p.row_pairs * p.column_tiles; }
  __device__ __forceinline__ void next() { pair += gridDim.x / kBlocks, ++round; }
  __device__ __forceinline__ int row() const { return (pair % p.row_pairs * kBlocks + int(blockIdx.x % kBlocks)) * kTileRows; }
  __device__ __forceinline__ int column() const { return pair / p.row_pairs * (PAIRED ? kTileColumns / 2 : kTileColumns); }
};

// Starts to copy a box to the same place in both blocks of the cluster, and to arrive at the same barrier in each.
__device__ __forceinline__ void copy_box_to_both(unsigned to, const TensorMap& map, int column, int row, PhaseBarrier arrived,
                                                 unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
      " [%0], [%1, {%2, %3, %4, %4}], [%5], %6, %7;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(0), "r"(arrived.address), "h"(static_cast<unsigned short>((1 << kBlocks) - 1)), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void copy_box(unsigned to, const TensorMap& map, int column, int row, PhaseBarrier arrived,
                                         unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3, %4, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(0), "r"(arrived.address), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void copy_left(Left tile, const ProductParams& p, int row, int depth, PhaseBarrier arrived,
                                          unsigned long long policy) {
  if constexpr (LEFT_DEEP) {
    copy_box(tile.address, p.left, depth, row, arrived, policy);
  } else {
#pragma unroll
    for (int panel = 0; panel < kTileRows / kPanel; ++panel)
      copy_box(tile.address + panel * Left::kPanelBytes, p.left, row + panel * kPanel, depth, arrived, policy);
  }
}

// This block's half of what both read.
__device__ __forceinline__ void copy_right(Right tile, const ProductParams& p, int column, int depth, PhaseBarrier arrived,
                                           unsigned long long policy) {
  const int half = blockIdx.x % kBlocks;
  if constexpr (RIGHT_DEEP) {
    constexpr int kHalf = kTileColumns / kBlocks;
    const int row = column + half * (PAIRED ? p.pair : kHalf);
    copy_box_to_both(tile.address + half * kHalf * Right::kRowBytes, p.right, depth, row, arrived, policy);
  } else {
    constexpr int kHalf = kDepth / kBlocks;
#pragma unroll
    for (int panel = 0; panel < kTileColumns / kPanel; ++panel)
      copy_box_to_both(tile.address + panel * Right::kPanelBytes + half * kHalf * Right::kRowBytes, p.right,
                       column + panel * kPanel, depth + half * kHalf, arrived, policy);
  }
}

// By one thread.
__device__ __forceinline__ void load_tiles(const ProductParams& p, Ring ring) {
  const unsigned long long often = evict_last();
  int step = 0;
  for (ClusterTiles tiles(p); tiles.more(); tiles.next())
    for (int depth = 0; depth < p.depth; depth += kDepth, ++step)
      ring.fill(step, Stage::kBytes, [&](Stage stage, PhaseBarrier arrived) {
        copy_left(stage.left(), p, tiles.row(), depth, arrived, often);
        copy_right(stage.right(), p, tiles.column(), depth, arrived, often);
      });
}

// A stage is free when nobody of the cluster reads it any more: both blocks' copies write to it.
__device__ __forceinline__ void release_in_cluster(const Ring& ring, int step) {
  __syncwarp();
  if (lane() < kBlocks) arrive_in_block(ring.free(step).address, lane());
}

// Of the 64 rows of a warpgroup.
struct RowSums {
  Accumulator sums[kTileColumns / 8] = {};

  __device__ __forceinline__ void multiply(Stage stage, int row) {
    const Left left = stage.left();
    const Right right = stage.right();
    begin_products();
#pragma unroll
    for (int d = 0; d < kDepth; d += kStep)
      if constexpr (LEFT_DEEP && RIGHT_DEEP)
        multiply_shared<ELEMENT, 0, kTileColumns / 8>(sums, left.rows_from(row, d), right.rows_from(0, d), true);
      else if constexpr (LEFT_DEEP)
        multiply_shared<ELEMENT, 0, kTileColumns / 8>(sums, left.rows_from(row, d), right.columns_from(0, d), true);
      else if constexpr (RIGHT_DEEP)
        multiply_shared<ELEMENT, 0, kTileColumns / 8>(sums, left.columns_from(row, d), right.rows_from(0, d), true);
      else
        multiply_shared<ELEMENT, 0, kTileColumns / 8>(sums, left.columns_from(row, d), right.columns_from(0, d), true);
    end_products();
  }
  __device__ __forceinline__ void store(Sums to, int row) const {
#pragma unroll
    for (int k = 0; k < kTileColumns / kStep; ++k)
      store_a<ELEMENT>(to, row + 16 * (warp() % 4), k * kStep, a_from_results<ELEMENT>(sums, k));
  }
};

// What becomes of a tile's sums: threads take packs of 8 columns. Operands of the packs to come are on their way before sums are
// there, and while others are worked on.
struct TileFinish {
  static constexpr int kColumns = PAIRED ? kTileColumns / 2 : kTileColumns, kPacks = kColumns / kPack;
  static constexpr int kWorkers = kFinishing * 32;
  const ProductParams& p;
  int first_row, first_column;
  Operands operands[kTogether];

  // Calls work(k, row, column) for those of kTogether packs from `begin` on that lie inside.
  template <class Work>
  __device__ __forceinline__ void each(int begin, Work work) const {
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int item = begin + k * kWorkers, row = item / kPacks, column = item % kPacks * kPack;
      if (item < kTileRows * kPacks && first_row + row < p.rows && first_column + column < p.columns) work(k, row, column);
    }
  }
  __device__ __forceinline__ void load(int begin) {
    each(begin, [&](int k, int row, int column) { operands[k] = load_operands(p, first_row + row, first_column + column); });
  }
  __device__ __forceinline__ void finish(int begin, const Operands (&with)[kTogether], const char* sums) const {
    each(begin, [&](int k, int row, int column) {
      finish_pack(p, with[k], sums + row * Sums::kRowBytes + column * 2, first_row + row, first_column + column);
    });
  }
  __device__ __forceinline__ void run(int begin, const char* sums) {
    for (; begin < kTileRows * kPacks; begin += kWorkers * kTogether) {
      Operands now[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) now[k] = operands[k];
      load(begin + kWorkers * kTogether);
      finish(begin, now, sums);
    }
  }
};

extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
PRODUCT_KERNEL(const __grid_constant__ ProductParams p) {
  wait_for_earlier_kernels();
  extern __shared__ __align__(1024) char shared[];
  const unsigned begin = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const Ring ring{begin, begin + Ring::kTileBytes + SumsRing::kTileBytes};
  const SumsRing sums_ring{begin + Ring::kTileBytes, ring.barriers + Ring::kBarrierBytes};
  if (threadIdx.x == 0) {
    ring.set_up(1, kMultiplying * kBlocks);
    sums_ring.set_up(kMultiplying * 32, kFinishing);
    publish_barriers();
  }
  meet_cluster();
  const int warpgroup = warpgroup_number();

  if (warpgroup >= kMultiplying / 4) {
    give_registers<kOtherRegisters>();
    if (warp() < kMultiplying + kFinishing) {
      const int first = threadIdx.x - kMultiplying * 32;
      for (ClusterTiles tiles(p); tiles.more(); tiles.next()) {
        TileFinish tile{p, tiles.row(), tiles.column()};
        tile.load(first);
        sums_ring.take(tiles.round);
        tile.run(first, shared + Ring::kTileBytes);
        sums_ring.release(tiles.round);
      }
    } else if (lane() == 0) {
      load_tiles(p, ring);
    }
  } else {
    take_registers<kMultiplyingRegisters>();
    const int row = 64 * warpgroup;
    int step = 0;
    for (ClusterTiles tiles(p); tiles.more(); tiles.next()) {
      RowSums mine;  // of zeros: products that ignore what they add to would keep the last tile's registers alive
      for (const int end = step + (p.depth + kDepth - 1) / kDepth; step < end; ++step) {
        mine.multiply(ring.take(step), row);
        wait_for_products<1>();
        if (step > 0) release_in_cluster(ring, step - 1);
      }
      wait_for_products<0>();
      fence_registers(mine.sums);
      mine.store(sums_ring.room(tiles.round), row);
      sums_ring.hand_over(tiles.round);
    }
  }
  __syncwarp();    // with the thread that has tiles copied
  meet_cluster();  // no block ends while the other may still write to it
}

}  // namespace ridgeline
