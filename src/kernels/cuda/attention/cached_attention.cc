// Plans attention over a cache: the rows of a block and the number of splits, from the shapes
// alone, so that one launch serves every position.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/attention/flash_plan.h"
#include "kernels/cuda/kernels.h"

namespace ridgeline {
namespace {

constexpr int64_t kMostRows = 8, kMostSplits = 64, kSplitSlots = 32, kFullDevice = 264;
// Blocks of a cluster combine their splits without another kernel; for short caches so few suffice.
constexpr int64_t kMostOfACluster = 8, kShortCache = 2048;
constexpr int64_t kCachedThreads = 128, kCachedWidth = 256;

struct CachedShape {
  int64_t rows, tile_rows, tiles, splits;  // of a key head
  int64_t cluster_splits = 0;              // if the blocks can be a cluster; 0: there are too many

  CachedShape(const Shape& q, const Shape& k) {
    rows = q[1] / k[1] * q[2];
    tile_rows = std::min(kMostRows, next_power_of_two(rows));
    tiles = divide_up(rows, tile_rows);
    splits = std::clamp<int64_t>(divide_up(kFullDevice, q[0] * k[1] * tiles), 1,
                                 std::min(kMostSplits, divide_up(k[2], kSplitSlots)));
    if (k[2] <= kShortCache) cluster_splits = std::min(splits, kMostOfACluster);
    if (splits <= kMostOfACluster) cluster_splits = splits;
  }
};

struct CachedScratch {
  float *parts = nullptr, *stats = nullptr;
  Bytes bytes;

  CachedScratch(void* memory, const CachedShape& shape, const Shape& q, const Shape& k) {
    if (shape.splits == 1) return;
    ScratchParts scratch(memory);
    const int64_t rows = q[0] * k[1] * shape.tiles * shape.splits * shape.tile_rows;
    parts = scratch.take<float>(rows * q[3]);
    stats = scratch.take<float>(rows * 2);
    bytes = scratch.used();
  }
};

}  // namespace

std::vector<CudaLaunch> plan_cached_attention(const CudaCall& call) {
  const TensorView &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2];
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  const int64_t width = q.shape[3];
  if (width > kCachedWidth || k.shape[2] > INT32_MAX || q.shape[2] > INT32_MAX)
    throw Error(ErrorKind::unsupported,
                fmt::format("attention over a cache of {} slots with heads of {} elements, the "
                            "kernel expects at most {} slots and {} elements",
                            k.shape[2], width, INT32_MAX, kCachedWidth));
  CachedShape shape(q.shape, k.shape);
  const bool is_cluster = call.device.compute_capability >= 90 && shape.cluster_splits > 1;
  if (is_cluster) shape.splits = shape.cluster_splits;
  const CachedScratch scratch(is_cluster ? nullptr : call.scratch, shape, q.shape, k.shape);
  PackWidth pack(k.dtype);
  pack.require_multiple(width);
  for (const TensorView* view : {&k, &v}) {
    for (int axis = 0; axis < 3; ++axis) pack.require_multiple(view->strides[axis]);
    if (view->strides[3] != 1) pack.limit_to(1);
    pack.require_address(view->data, view->dtype);
  }
  const int64_t lanes = std::min<int64_t>(32, next_power_of_two(divide_up(width, pack.get())));
  const CachedAttentionParams params{
      .q = flash_tensor(q),
      .k = flash_tensor(k),
      .v = flash_tensor(v),
      .out = flash_tensor(call.outputs[0]),
      .log_sum_exp = call.outputs[1].as<float>(),
      .position = call.inputs[3].as<int>(),
      .parts = scratch.parts,
      .stats = scratch.stats,
      .key_heads = static_cast<int>(k.shape[1]),
      .group = static_cast<int>(q.shape[1] / k.shape[1]),
      .queries = static_cast<int>(q.shape[2]),
      .rows = static_cast<int>(shape.rows),
      .tiles = static_cast<int>(shape.tiles),
      .slots = static_cast<int>(k.shape[2]),
      .window = static_cast<int>(std::min<int64_t>(spec.mask.window, INT32_MAX / 2)),
      .splits = static_cast<int>(shape.splits),
      .scale = static_cast<float>(spec.scale)};
  const auto launch_of = [&](const char* name, int64_t threads, CudaConstants constants) {
    CudaLaunch launch{.kernel = {.file = std::string(name) + ".cu",
                                 .entry = name,
                                 .constants = std::move(constants)},
                      .threads = static_cast<uint32_t>(threads)};
    launch.kernel.constants.emplace_back("TYPE", element_name(q.dtype));
    for (const auto& [key, value] :
         {std::pair{"WIDTH", width}, {"ROWS", shape.tile_rows}, {"THREADS", threads}})
      launch.kernel.constants.push_back(constant(key, static_cast<int>(value)));
    launch.set_params(params);
    return launch;
  };
  const int64_t heads = q.shape[0] * k.shape[1] * shape.tiles;
  CudaLaunch main = launch_of(
      "cached_attention", kCachedThreads,
      {constant("PACK", static_cast<int>(pack.get())), constant("LANES", static_cast<int>(lanes)),
       constant("UNROLL", shape.tile_rows == kMostRows ? 2 : 4),
       constant("CLUSTER", is_cluster ? static_cast<int>(shape.splits) : 0)});
  main.grid = {grid_size(heads), static_cast<uint32_t>(shape.splits), 1};
  std::vector<CudaLaunch> launches = alone(std::move(main));
  if (shape.splits == 1 || is_cluster) return launches;
  CudaLaunch joining = launch_of("cached_attention_parts", divide_up(width, 32) * 32, {});
  joining.grid = {grid_size(heads * shape.tile_rows), 1, 1};
  launches.push_back(std::move(joining));
  return launches;
}

Bytes cached_attention_scratch(std::span<const TensorType> inputs) {
  const Shape &q = inputs[0].shape, &k = inputs[1].shape;
  return CachedScratch(nullptr, CachedShape(q, k), q, k).bytes;
}

}  // namespace ridgeline
