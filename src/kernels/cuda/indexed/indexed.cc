// Plans the ops with indices: argmax, gather, scatter_add, pick and place.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

constexpr int64_t kThreads = 256;

CudaConstants constants_of(DType dtype) {
  return {{"TYPE", element_name(dtype)}, {"THREADS", std::to_string(kThreads)}};
}
CudaConstants constants_of(DType dtype, const char* name, int64_t value) {
  return {{"TYPE", element_name(dtype)},
          {"THREADS", std::to_string(kThreads)},
          {name, std::to_string(value)}};
}

// Blocks that search one row, from the shapes alone: enough to fill any device, each with at least
// kLeastPart elements.
int64_t argmax_parts(int64_t rows, int64_t width) {
  constexpr int64_t kFullDevice = 512, kLeastPart = 2048;
  return std::clamp<int64_t>(std::min(divide_up(kFullDevice, rows), width / kLeastPart), 1,
                             kThreads);
}

}  // namespace

std::vector<CudaLaunch> plan_argmax(const CudaCall& call) {
  constexpr int64_t kMaxGridY = 65535;
  const TensorView& x = call.inputs[0];
  const int64_t rows = x.shape[0], width = x.shape[1];
  if (rows > kMaxGridY)
    throw Error(ErrorKind::unsupported,
                fmt::format("argmax of {} rows, the kernel expects at most {}", rows, kMaxGridY),
                "cut the rows into parts");
  PackWidth pack(x.dtype);
  pack.require_multiple(width);
  if (rows > 1) pack.require_multiple(x.strides[0]);
  pack.require_address(x.data, x.dtype);
  if (x.strides[1] != 1) pack.limit_to(1);
  const int64_t most = argmax_parts(rows, width);
  const int64_t part_size = divide_up(divide_up(width, most), pack.get()) * pack.get();
  const int64_t parts = divide_up(width, part_size);
  const ArgmaxParams params{.x = x.data,
                            .keys = static_cast<unsigned long long*>(call.scratch),
                            .out = call.outputs[0].as<int>(),
                            .row_step = x.strides[0],
                            .column_step = x.strides[1],
                            .width = width,
                            .part_size = part_size,
                            .rows = static_cast<int>(rows),
                            .parts = static_cast<int>(parts)};
  std::vector<CudaLaunch> launches = alone(
      launch_of("argmax", parts, kThreads, constants_of(x.dtype, "PACK", pack.get()), params));
  launches[0].grid[1] = static_cast<uint32_t>(rows);
  if (parts > 1)
    launches.push_back(
        launch_of("argmax_parts", rows, kThreads, {{"THREADS", std::to_string(kThreads)}}, params));
  return launches;
}

Bytes argmax_scratch(const Node&, std::span<const TensorType> inputs, const CudaFacts&) {
  const int64_t rows = inputs[0].shape[0], parts = argmax_parts(rows, inputs[0].shape[1]);
  return Bytes{parts == 1 ? 0 : rows * parts * static_cast<int64_t>(sizeof(unsigned long long))};
}

std::vector<CudaLaunch> plan_gather(const CudaCall& call) {
  const TensorView& table = call.inputs[0];
  const TensorView& indices = call.inputs[1];
  const TensorView& out = call.outputs[0];
  PackWidth pack(out.dtype);
  pack.require_multiple(out.shape[1]);
  pack.require_multiple(table.strides[0]);
  pack.require_address(table.data, table.dtype);
  pack.require_address(out.data, out.dtype);
  if (table.strides[1] != 1) pack.limit_to(1);
  const int64_t blocks = divide_up(element_count(out.shape) / pack.get(), kThreads);
  return alone(launch_of("gather", blocks, kThreads, constants_of(out.dtype, "PACK", pack.get()),
                         GatherParams{.table = table.data,
                                      .indices = indices.as<int>(),
                                      .out = out.data,
                                      .row_step = table.strides[0],
                                      .column_step = table.strides[1],
                                      .index_step = indices.strides[0],
                                      .rows = table.shape[0],
                                      .count = out.shape[0],
                                      .width = out.shape[1]}));
}

std::vector<CudaLaunch> plan_scatter_add(const CudaCall& call) {
  constexpr int64_t kMostColumns = 4;  // of a thread
  const TensorView& indices = call.inputs[0];
  const TensorView& updates = call.inputs[1];
  const TensorView& out = call.outputs[0];
  const int64_t columns =
      std::min(kMostColumns, next_power_of_two(divide_up(out.shape[1], kThreads)));
  CudaLaunch launch =
      launch_of("scatter_add", out.shape[0], kThreads, constants_of(out.dtype, "COLUMNS", columns),
                ScatterAddParams{.updates = updates.data,
                                 .indices = indices.as<int>(),
                                 .out = out.data,
                                 .row_step = updates.strides[0],
                                 .column_step = updates.strides[1],
                                 .index_step = indices.strides[0],
                                 .count = updates.shape[0],
                                 .width = out.shape[1]});
  launch.grid[1] = static_cast<uint32_t>(divide_up(out.shape[1], columns * kThreads));
  return alone(std::move(launch));
}

std::vector<CudaLaunch> plan_pick(const CudaCall& call) {
  const TensorView& x = call.inputs[0];
  const TensorView& indices = call.inputs[1];
  return alone(launch_of("pick", divide_up(x.shape[0], kThreads), kThreads, constants_of(x.dtype),
                         PickParams{.x = x.data,
                                    .indices = indices.as<int>(),
                                    .out = call.outputs[0].data,
                                    .row_step = x.strides[0],
                                    .column_step = x.strides[1],
                                    .index_step = indices.strides[0],
                                    .count = x.shape[0],
                                    .width = x.shape[1]}));
}

std::vector<CudaLaunch> plan_place(const CudaCall& call) {
  const TensorView& indices = call.inputs[0];
  const TensorView& values = call.inputs[1];
  const TensorView& out = call.outputs[0];
  PackWidth pack(out.dtype);
  pack.require_multiple(out.shape[1]);
  pack.require_address(out.data, out.dtype);
  const int64_t blocks = divide_up(element_count(out.shape) / pack.get(), kThreads);
  return alone(launch_of("place", blocks, kThreads, constants_of(out.dtype, "PACK", pack.get()),
                         PlaceParams{.values = values.data,
                                     .indices = indices.as<int>(),
                                     .out = out.data,
                                     .value_step = values.strides[0],
                                     .index_step = indices.strides[0],
                                     .count = out.shape[0],
                                     .width = out.shape[1]}));
}

}  // namespace ridgeline
