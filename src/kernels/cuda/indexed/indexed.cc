// Plans the ops with indices.
#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

constexpr int64_t kThreads = 256;

CudaLaunch launch_of(const char* name, DType dtype, int64_t items) {
  CudaLaunch launch{.kernel = {.file = std::string(name) + ".cu",
                               .entry = name,
                               .constants = {{"TYPE", element_name(dtype)},
                                             {"THREADS", std::to_string(kThreads)}}}};
  launch.grid = {static_cast<uint32_t>(divide_up(items, kThreads)), 1, 1};
  launch.threads = static_cast<uint32_t>(kThreads);
  return launch;
}

}  // namespace

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
  CudaLaunch launch = launch_of("gather", out.dtype, element_count(out.shape) / pack.get());
  launch.kernel.constants.emplace_back("PACK", std::to_string(pack.get()));
  launch.set_params(GatherParams{.table = table.data,
                                 .indices = indices.as<int>(),
                                 .out = out.data,
                                 .row_step = table.strides[0],
                                 .column_step = table.strides[1],
                                 .index_step = indices.strides[0],
                                 .rows = table.shape[0],
                                 .count = out.shape[0],
                                 .width = out.shape[1]});
  return alone(std::move(launch));
}

std::vector<CudaLaunch> plan_scatter_add(const CudaCall& call) {
  constexpr int64_t kMostColumns = 4;  // of a thread
  const TensorView& indices = call.inputs[0];
  const TensorView& updates = call.inputs[1];
  const TensorView& out = call.outputs[0];
  const int64_t columns =
      std::min(kMostColumns, next_power_of_two(divide_up(out.shape[1], kThreads)));
  CudaLaunch launch = launch_of("scatter_add", out.dtype, 1);
  launch.kernel.constants.emplace_back("COLUMNS", std::to_string(columns));
  launch.grid = {static_cast<uint32_t>(out.shape[0]),
                 static_cast<uint32_t>(divide_up(out.shape[1], columns * kThreads)), 1};
  launch.set_params(ScatterAddParams{.updates = updates.data,
                                     .indices = indices.as<int>(),
                                     .out = out.data,
                                     .row_step = updates.strides[0],
                                     .column_step = updates.strides[1],
                                     .index_step = indices.strides[0],
                                     .count = updates.shape[0],
                                     .width = out.shape[1]});
  return alone(std::move(launch));
}

std::vector<CudaLaunch> plan_pick(const CudaCall& call) {
  const TensorView& x = call.inputs[0];
  const TensorView& indices = call.inputs[1];
  CudaLaunch launch = launch_of("pick", x.dtype, x.shape[0]);
  launch.set_params(PickParams{.x = x.data,
                               .indices = indices.as<int>(),
                               .out = call.outputs[0].data,
                               .row_step = x.strides[0],
                               .column_step = x.strides[1],
                               .index_step = indices.strides[0],
                               .count = x.shape[0],
                               .width = x.shape[1]});
  return alone(std::move(launch));
}

std::vector<CudaLaunch> plan_place(const CudaCall& call) {
  const TensorView& indices = call.inputs[0];
  const TensorView& values = call.inputs[1];
  const TensorView& out = call.outputs[0];
  PackWidth pack(out.dtype);
  pack.require_multiple(out.shape[1]);
  pack.require_address(out.data, out.dtype);
  CudaLaunch launch = launch_of("place", out.dtype, element_count(out.shape) / pack.get());
  launch.kernel.constants.emplace_back("PACK", std::to_string(pack.get()));
  launch.set_params(PlaceParams{.values = values.data,
                                .indices = indices.as<int>(),
                                .out = out.data,
                                .value_step = values.strides[0],
                                .index_step = indices.strides[0],
                                .count = out.shape[0],
                                .width = out.shape[1]});
  return alone(std::move(launch));
}

}  // namespace ridgeline
