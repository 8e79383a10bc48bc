// The tile sizes of the flash kernels: candidates as data, filtered by named constraints.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/launch.h"

namespace ridgeline {

// What the choice of a tile depends on.
struct FlashShape {
  DType dtype = DType::bf16;
  int width = 64;  // of a head
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t heads = 1;      // batch and query heads together
  int64_t key_heads = 1;  // batch and key heads together
  int mask = 0;           // MASK of flash_common.cuh
  bool covers = true;     // every query sees a key, and every key is seen
  bool function = false;  // there is a score function
  bool aligned = true;    // rows can be moved 16 bytes at a time
  bool boxed = true;      // inputs can be copied in boxes (tensor_map.cuh)

  int head_dim() const;  // the width of tiles: WIDTH padded
  // fp16 planes that a 32-bit element is split into (flash_planes.cu); 0 for 16-bit elements.
  int planes() const;
  int64_t row_bytes() const;  // of a row in shared memory
};

inline constexpr int kMaxFlashWidth = 256;

// flash_forward.cu, or those that only Hopper runs: flash_forward_warpgroups.cu and its sibling for
// short sequences.
enum class ForwardKernel { portable, warpgroups, warpgroups_short };

// The tile of a forward kernel; its fields are the constants described there.
struct ForwardTile {
  int rows, keys, warps, stages, blocks;
  ForwardKernel kernel = ForwardKernel::portable;
  int query_stages = 1;
  bool persistent = false;  // a block processes several tiles in turn
  bool direct = false;      // results are stored directly from registers
  // With a mask, persistent blocks draw tiles from a counter.
  bool draws(const FlashShape& shape) const { return persistent && shape.mask != 0; }
  int64_t shared_bytes(const FlashShape& shape) const;
};

// flash_backward_keys.cu, or those that only Hopper runs: flash_backward_warpgroups.cu and
// flash_backward_warpgroups_wide.cu.
enum class BackwardKernel { portable, warpgroups, warpgroups_wide };

// The tile of a backward kernel that keeps keys; its fields are the constants described there.
struct BackwardKeysTile {
  int queries, keys, warps, stages, split, blocks;
  BackwardKernel kernel = BackwardKernel::portable;
  bool whole_heads = false;  // a block processes all keys of a head, and adds up its dQ alone
  int64_t shared_bytes(const FlashShape& shape, bool single_pass) const;
};

// The tile of a backward kernel that keeps queries: flash_backward_queries.cu, or on Hopper
// flash_backward_queries_warpgroups.cu.
struct BackwardQueriesTile {
  int queries, keys, warps, stages, blocks;
  BackwardKernel kernel = BackwardKernel::portable;
  int64_t shared_bytes(const FlashShape& shape) const;
};

// Returns the tiles that this device can run, the one that is likely best first; never empty.
// Throws an unsupported error for heads wider than kMaxFlashWidth.
std::vector<ForwardTile> forward_tiles(const FlashShape& shape, const CudaFacts& device);
std::vector<BackwardKeysTile> backward_keys_tiles(const FlashShape& shape, const CudaFacts& device,
                                                  bool single_pass);
std::vector<BackwardQueriesTile> backward_queries_tiles(const FlashShape& shape,
                                                        const CudaFacts& device);

// Whether one of the forward tiles draws, so that a counter is needed.
bool may_draw(const FlashShape& shape, const CudaFacts& device);

// Query tiles are no larger than this, so that scratch can be sized before a tile is chosen.
inline constexpr int kMaxQueryTile = 128;

}  // namespace ridgeline
