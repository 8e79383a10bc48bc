// Products of 16-bit matrices on Hopper with a fused epilogue. Blocks are persistent; a launch may have several
// products of the same layouts, whose tiles follow each other without a gap.
//
// The two blocks of a cluster compute tiles one above the other. Each copies its own rows of the left matrix, and half
// of the columns for both of them (TMA multicast). In a block a producer thread issues the copies as far ahead as the
// ring has free stages, two consumer warpgroups multiply, and other warps run the epilogue of a tile while the next one
// is multiplied.
//
// Constants:
//   ELEMENT                      bf16 or fp16
//   COLUMNS                      columns of a tile
//   STAGES                       steps in depth in shared memory
//   LEFT_K_MAJOR, RIGHT_K_MAJOR  1: the matrix is contiguous along the depth, 0: across it
//   PAIRED                       1: the second half of a tile's columns lies p.pair columns after the first
//
// A kernel calls multiply_with_epilogue<Epilogue>(p) (product_packs.cuh, product_update.cu):
//   struct Epilogue {                                     constructed once by each thread of the epilogue
//     static constexpr bool kAlongRows;                   the order of tiles
//     explicit Epilogue(const Params& p);                 ProductParams, or one with more products
//     void begin(int product, int row, int column);       before the sums are ready
//     void run(const char* sums);                         rows of Sums::kRowBytes
//   };
#pragma once

#include "cluster.cuh"
#include "tensor_map.cuh"

namespace ridgeline {

constexpr int kTileRows = 128, kTileColumns = COLUMNS, kDepth = 64;
constexpr int kThreads = 4 * kWarpgroup;
constexpr int kConsumerWarps = 8, kEpilogueWarps = 7;  // the producer's follows them
constexpr int kConsumerRegisters = 152, kOtherRegisters = 104;
constexpr int kBlocks = 2;  // of a cluster

template <bool kFirst, class A, class B>
struct Either {
  using Type = A;
};
template <class A, class B>
struct Either<false, A, B> {
  using Type = B;
};
using Left = Either<LEFT_K_MAJOR, Panels<kTileRows, kDepth>, Panels<kDepth, kTileRows>>::Type;
using Right = Either<RIGHT_K_MAJOR, Panels<kTileColumns, kDepth>, Panels<kDepth, kTileColumns>>::Type;

// A step in depth of both operands.
struct Stage {
  static constexpr int kBytes = Left::kBytes + Right::kBytes;
  unsigned address;
  __device__ __forceinline__ Left left() const { return {address}; }
  __device__ __forceinline__ Right right() const { return {address + Left::kBytes}; }
};
using Ring = TileRing<Stage, STAGES>;
// Sums passed from the consumers to the epilogue, which reads them by plain loads.
struct Sums : Tile<ELEMENT, kTileColumns> {
  static constexpr int kBytes = Tile::bytes(kTileRows);
};
using SumsRing = TileRing<Sums, 1, true>;

// The tiles of a cluster: pairs, one above the other. Consecutive pairs share columns, or with kAlongRows rows.
template <bool kAlongRows, class Params>
struct ClusterTiles {
  const Params& p;
  int product = 0;
  int pair = blockIdx.x / kBlocks;  // of the product
  int round = 0;

  __device__ __forceinline__ explicit ClusterTiles(const Params& params) : p(params) { skip_products(); }
  __device__ __forceinline__ const ProductProblem& of() const { return p.products[product]; }
  __device__ __forceinline__ bool more() const { return product < p.count; }
  __device__ __forceinline__ void next() {
    pair += gridDim.x / kBlocks, ++round;
    skip_products();
  }
  __device__ __forceinline__ int row() const {
    const int number = kAlongRows ? pair / of().column_tiles : pair % of().row_pairs;
    return (number * kBlocks + int(blockIdx.x % kBlocks)) * kTileRows;
  }
  __device__ __forceinline__ int column() const {
    const int number = kAlongRows ? pair % of().column_tiles : pair / of().row_pairs;
    return number * (PAIRED ? kTileColumns / 2 : kTileColumns);
  }

 private:
  __device__ __forceinline__ void skip_products() {
    for (; more(); ++product) {
      const int pairs = of().row_pairs * of().column_tiles;
      if (pair < pairs) return;
      pair -= pairs;
    }
  }
};

// Starts to copy a box to the same place in both blocks of the cluster, and to complete at the same barrier in each.
__device__ __forceinline__ void copy_box_to_both(unsigned to, const TensorMap& map, int column, int row,
                                                 MBarrier arrived, unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4, %4}], [%5], %6, %7;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(0), "r"(arrived.address),
      "h"(static_cast<unsigned short>((1 << kBlocks) - 1)), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void copy_box(unsigned to, const TensorMap& map, int column, int row, MBarrier arrived,
                                         unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3, %4, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(0), "r"(arrived.address), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void copy_left(Left tile, const ProductProblem& p, int row, int depth, MBarrier arrived,
                                          unsigned long long policy) {
  if constexpr (LEFT_K_MAJOR) {
    copy_box(tile.address, p.left, depth, row, arrived, policy);
  } else {
#pragma unroll
    for (int panel = 0; panel < kTileRows / kPanel; ++panel)
      copy_box(tile.address + panel * Left::kPanelBytes, p.left, row + panel * kPanel, depth, arrived, policy);
  }
}

// Copies this block's half of the columns to both blocks.
__device__ __forceinline__ void copy_right(Right tile, const ProductProblem& p, int column, int pair, int depth,
                                           MBarrier arrived, unsigned long long policy) {
  const int half = blockIdx.x % kBlocks;
  if constexpr (RIGHT_K_MAJOR) {
    constexpr int kHalf = kTileColumns / kBlocks;
    const int row = column + half * (PAIRED ? pair : kHalf);
    copy_box_to_both(tile.address + half * kHalf * Right::kRowBytes, p.right, depth, row, arrived, policy);
  } else {
    constexpr int kHalf = kDepth / kBlocks;
#pragma unroll
    for (int panel = 0; panel < kTileColumns / kPanel; ++panel)
      copy_box_to_both(tile.address + panel * Right::kPanelBytes + half * kHalf * Right::kRowBytes, p.right,
                       column + panel * kPanel, depth + half * kHalf, arrived, policy);
  }
}

// The producer thread.
template <class Tiles, class Params>
__device__ __forceinline__ void load_tiles(const Params& p, Ring ring) {
  const unsigned long long often = evict_last();
  int step = 0;
  for (Tiles tiles(p); tiles.more(); tiles.next())
    for (int depth = 0; depth < tiles.of().depth; depth += kDepth, ++step)
      ring.fill(step, Stage::kBytes, [&](Stage stage, MBarrier arrived) {
        copy_left(stage.left(), tiles.of(), tiles.row(), depth, arrived, often);
        copy_right(stage.right(), tiles.of(), tiles.column(), p.pair, depth, arrived, often);
      });
}

// A stage is free when neither block of the cluster reads it any more: the copies of both write to it.
__device__ __forceinline__ void release_in_cluster(const Ring& ring, int step) {
  __syncwarp();
  if (lane() < kBlocks) arrive_in_block(ring.empty(step).address, lane());
}

// The sums of a warpgroup's 64 rows.
struct RowSums {
  Accumulator sums[kTileColumns / 8] = {};

  __device__ __forceinline__ void multiply(Stage stage, int row) {
    const Left left = stage.left();
    const Right right = stage.right();
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < kDepth; d += kStep)
      if constexpr (LEFT_K_MAJOR && RIGHT_K_MAJOR)
        multiply_shared<ELEMENT, 0, kTileColumns / 8>(sums, left.rows_from(row, d), right.rows_from(0, d), true);
      else if constexpr (LEFT_K_MAJOR)
        multiply_shared<ELEMENT, 0, kTileColumns / 8>(sums, left.rows_from(row, d), right.columns_from(0, d), true);
      else if constexpr (RIGHT_K_MAJOR)
        multiply_shared<ELEMENT, 0, kTileColumns / 8>(sums, left.columns_from(row, d), right.rows_from(0, d), true);
      else
        multiply_shared<ELEMENT, 0, kTileColumns / 8>(sums, left.columns_from(row, d), right.columns_from(0, d), true);
    wgmma_commit();
  }
  __device__ __forceinline__ void store(Sums to, int row) const {
#pragma unroll
    for (int k = 0; k < kTileColumns / kStep; ++k)
      store_a<ELEMENT>(to, row + 16 * (warp() % 4), k * kStep, a_from_results<ELEMENT>(sums, k));
  }
};

template <class Epilogue, class Params>
__device__ __forceinline__ void multiply_with_epilogue(const Params& p) {
  extern __shared__ __align__(1024) char shared[];
  const unsigned begin = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const Ring ring{begin, begin + Ring::kTileBytes + SumsRing::kTileBytes};
  const SumsRing sums_ring{begin + Ring::kTileBytes, ring.barriers + Ring::kBarrierBytes};
  if (threadIdx.x == 0) {
    ring.set_up(1, kConsumerWarps * kBlocks);
    sums_ring.set_up(kConsumerWarps * 32, kEpilogueWarps);
    fence_barrier_init();
  }
  cluster_sync();
  const int warpgroup = warpgroup_number();
  using Tiles = ClusterTiles<Epilogue::kAlongRows, Params>;

  if (warpgroup >= kConsumerWarps / 4) {
    decrease_registers<kOtherRegisters>();
    if (warp() < kConsumerWarps + kEpilogueWarps) {
      Epilogue epilogue(p);
      for (Tiles tiles(p); tiles.more(); tiles.next()) {
        epilogue.begin(tiles.product, tiles.row(), tiles.column());
        sums_ring.wait_full(tiles.round);
        epilogue.run(shared + Ring::kTileBytes);
        sums_ring.release(tiles.round);
      }
    } else if (lane() == 0) {
      load_tiles<Tiles>(p, ring);
    }
  } else {
    increase_registers<kConsumerRegisters>();
    const int row = 64 * warpgroup;
    int step = 0;
    for (Tiles tiles(p); tiles.more(); tiles.next()) {
      RowSums mine;  // zeros: products that overwrite would keep the registers of the last tile alive
      for (const int end = step + (tiles.of().depth + kDepth - 1) / kDepth; step < end; ++step) {
        mine.multiply(ring.wait_full(step), row);
        wgmma_wait<1>();
        if (step > 0) release_in_cluster(ring, step - 1);
      }
      wgmma_wait<0>();
      fence_registers(mine.sums);
      mine.store(sums_ring.acquire_empty(tiles.round), row);
      sums_ring.commit_full(tiles.round);
    }
  }
  __syncwarp();    // with the producer thread
  cluster_sync();  // no block exits while the other may still write to it
}

}  // namespace ridgeline
