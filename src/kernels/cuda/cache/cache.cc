// Plans the ops that store rows in a cache and count them.
#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

constexpr int64_t kCacheThreads = 256;

int rows_of(const CudaCall& call) {
  return static_cast<int>(std::get<RowCount>(call.node.attributes.detail).count);
}

}  // namespace

std::vector<CudaLaunch> plan_append(const CudaCall& call) {
  const TensorView &rows = call.inputs[1], &cache = call.outputs[0];
  const int64_t width = cache.shape.back(), slots = cache.shape.back(1);
  const int64_t stored = std::min(slots, rows.shape.back(1));
  const TensorView batch = batch_of(rows);
  const Walk walk = make_walk(batch.shape, {&batch, 1});
  PackWidth pack(cache.dtype);
  pack.require_multiple(width);
  pack.require_multiple(rows.strides.back(1));
  for (int axis = 0; axis < walk.shape.rank(); ++axis) pack.require_multiple(walk.strides[0][axis]);
  pack.require_address(rows.data, rows.dtype);
  pack.require_address(cache.data, cache.dtype);
  if (rows.strides.back() != 1) pack.limit_to(1);
  AppendParams params{.cache = cache.data,
                      .rows = rows.data,
                      .position = call.inputs[2].as<int>(),
                      .outer_sizes = {},
                      .outer_steps = {},
                      .row_step = rows.strides.back(1),
                      .column_step = rows.strides.back(),
                      .items = element_count(batch.shape) * stored * width / pack.get(),
                      .slots = slots,
                      .count = rows.shape.back(1),
                      .stored = stored,
                      .packs = width / pack.get()};
  write_sizes(walk, 1, params.outer_sizes);
  write_steps(walk.strides[0], 1, params.outer_steps);
  return alone(launch_of("append", divide_up(params.items, kCacheThreads), kCacheThreads,
                         {{"THREADS", std::to_string(kCacheThreads)},
                          {"TYPE", element_name(cache.dtype)},
                          {"PACK", std::to_string(pack.get())},
                          {"AXES", std::to_string(walk.shape.rank())}},
                         params));
}

std::vector<CudaLaunch> plan_advance(const CudaCall& call) {
  return alone(
      launch_of("advance", 1, 1, {},
                AdvanceParams{.position = call.outputs[0].as<int>(), .count = rows_of(call)}));
}

std::vector<CudaLaunch> plan_ring_positions(const CudaCall& call) {
  const int64_t slots = call.outputs[0].shape[0];
  return alone(launch_of("ring_positions", divide_up(slots, kCacheThreads), kCacheThreads,
                         {{"THREADS", std::to_string(kCacheThreads)}},
                         RingPositionsParams{.position = call.inputs[0].as<int>(),
                                             .out = call.outputs[0].as<int>(),
                                             .count = rows_of(call),
                                             .slots = static_cast<int>(slots)}));
}

}  // namespace ridgeline
