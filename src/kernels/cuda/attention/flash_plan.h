// An attention node as the flash kernels see it: sizes, mask, scratch for 32-bit elements split
// into planes, and what all their launches share.
#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/flash_tiles.h"
#include "kernels/cuda/attention/score_text.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/params.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {

FlashTensor flash_tensor(const TensorView& view);

// Describes the TensorMap at `map_offset` of the parameters, of the tensor whose FlashTensor is at
// `tensor_offset`; boxes are `rows` high.
BoxedTensor boxed_tensor(const TensorView& view, size_t map_offset, size_t tensor_offset, int rows);

// Suballocates scratch memory; without memory it only counts.
class ScratchParts {
 public:
  explicit ScratchParts(void* memory) : memory_(static_cast<char*>(memory)) {}
  template <class T>
  T* take(int64_t count) {
    char* part = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += divide_up(count * static_cast<int64_t>(sizeof(T)), 256) * 256;
    return reinterpret_cast<T*>(part);
  }
  Bytes used() const { return Bytes{used_}; }

 private:
  char* memory_;
  int64_t used_ = 0;
};

// Tensors of 32-bit elements to be split into planes (flash_planes.cu).
struct FlashPlanes {
  FlashPlanesParams params = {};
  int count = 0;
  int64_t blocks = 0;  // of 16 rows, in the largest tensor

  // Scratch for one tensor [batch, heads, rows, width].
  void reserve(ScratchParts& scratch, const FlashShape& shape, const Shape& tensor);
  // What the main kernels read instead of tensor `i`.
  FlashTensor tensor(int i, const FlashShape& shape) const;
};

// Returns how many ranges a node needs for `rows` queries or keys; 0 if it skips nothing.
int64_t visible_range_count(const AttentionSpec& spec, const Shape& q, const Shape& k,
                            int64_t rows);

// Attention over a cache (cached_attention.cc).
std::vector<CudaLaunch> plan_cached_attention(const CudaCall& call);
Bytes cached_attention_scratch(std::span<const TensorType> inputs);

struct FlashPlan {
  FlashShape shape;
  int64_t batches, heads, key_heads;  // heads of one batch
  float scale;
  int mask_first, mask_last;
  bool grouped;  // blocks along x, long tiles of several heads first (flash_common.cuh, BlockTile)
  const CudaFacts& device;

  const ScoreFunction* function;         // may be null
  std::span<const TensorView> operands;  // of the function

  // `tensors`: all tensors of the main kernels, beginning with the `loaded` ones that they read
  // tile by tile; operands are the inputs from `first_operand` on. Throws an unsupported error that
  // names what the kernels do not support.
  FlashPlan(const CudaCall& call, std::span<const TensorView> tensors, size_t loaded,
            size_t first_operand);

  // Whether Hopper kernels skip what the score function masks (flash_seen.cu). seen_launch finds
  // the queries that groups of keys see if `of_keys`, else the keys that groups of queries see.
  bool skips() const;
  CudaLaunch seen_launch(bool of_keys, const VisibleRange* ranges) const;
  void put_visible_axes(CudaLaunch& launch) const;

  float scale_log2() const;
  CudaLaunch launch(const char* file, const char* entry, CudaConstants constants) const;
  // Adds the score function to a kernel. A constant gradient is part of gradient_scale() instead.
  void put_function(CudaLaunch& launch, bool with_gradient) const;
  // The factor of sums of score gradients times keys or queries.
  float gradient_scale() const;
  template <class Params>
  void put_operands(Params& params) const {
    for (size_t i = 0; i < operands.size(); ++i) params.operands[i] = flash_operand(operands[i]);
  }
  CudaLaunch planes_launch(FlashPlanes planes, std::span<const TensorView> tensors) const;
  std::array<uint32_t, 3> grid(int64_t tiles, int64_t heads_of_batch) const;
  // The number of heads processed together, such that their keys and values fit the L2 cache.
  int heads_at_once(int64_t tiles, int64_t all_heads) const;
  std::string tuning_key(const char* kernel) const;
};

// Returns what the size of scratch depends on besides tensor shapes: the dtype and the width.
FlashShape scratch_shape(const TensorType& q);

uint32_t grid_size(int64_t blocks);
std::pair<std::string, std::string> constant(const char* name, int value);

}  // namespace ridgeline
