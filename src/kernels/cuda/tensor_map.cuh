// TMA copies (tensor memory accelerator of Hopper): one thread names a box of a tensor, which arrives in shared memory
// as a panel of warpgroup.cuh, with zeros beyond the tensor's ends. An mbarrier counts the bytes.
#pragma once

#include "params.h"
#include "warpgroup.cuh"

namespace ridgeline {

// L2 cache policies.
__device__ __forceinline__ unsigned long long evict_first() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ unsigned long long evict_last() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// The coordinates of a tile in [batch, heads, rows, width].
struct TilePlace {
  int row, head, batch;
};

// Starts to copy a tile, Tile::kBytes: one box per panel, each as high as the tile.
template <class Tile>
__device__ __forceinline__ void copy_tile(Tile tile, const TensorMap& map, TilePlace from, MBarrier arrived,
                                          unsigned long long policy) {
#pragma unroll
  for (int panel = 0; panel < Tile::kBytes / Tile::kPanelBytes; ++panel)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(tile.address + panel * Tile::kPanelBytes),
        "l"(&map), "r"(panel * kPanel), "r"(from.row), "r"(from.head), "r"(from.batch), "r"(arrived.address),
        "l"(policy)
        : "memory");
}

// Starts to copy contiguous bytes; their number and both addresses are multiples of 16.
__device__ __forceinline__ void copy_bytes(unsigned to, const void* from, int bytes, MBarrier arrived) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(arrived.address)
               : "memory");
}

// Called by the thread that initialised barriers, before copies arrive at them.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace ridgeline
