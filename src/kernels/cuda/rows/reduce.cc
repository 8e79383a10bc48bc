// Plans sum, mean and max: the axis along which threads are adjacent, and the number of parts of a
// long reduction of few results.
#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kColumnLanes = 32;  // as in reduce_columns.cu
constexpr int64_t kColumnRows = kThreads / kColumnLanes;
constexpr int64_t kFullDevice = 2048;  // blocks that fill any device
constexpr int64_t kItemsOfThread = 8;  // worth a thread of its own
constexpr int64_t kMaxParts = 512;
constexpr int64_t kMaxPartResults = int64_t{1} << 17;  // bounds the scratch to 512 KiB

// From the shapes alone, since scratch is sized before tensors have addresses.
int64_t most_parts(int64_t results, int64_t reduced) {
  return std::clamp<int64_t>(std::min(reduced / kThreads, kMaxPartResults / results), 1, kMaxParts);
}

struct Problem {
  const char* fold;
  const void* data;
  DType dtype;
  Walk kept, reduced;  // over the input
  int64_t results, count;
};

Problem split_axes(const CudaCall& call) {
  const TensorView& x = call.inputs[0];
  const Shape& result = call.outputs[0].shape;
  TensorView kept = x, reduced = x;
  for (int axis = 0; axis < x.shape.rank(); ++axis)
    (result[axis] != x.shape[axis] ? kept : reduced).shape[axis] = 1;
  return {.fold = call.node.op == Op::max ? "Max" : "Sum",
          .data = x.data,
          .dtype = x.dtype,
          .kept = make_walk(kept.shape, {&kept, 1}),
          .reduced = make_walk(reduced.shape, {&reduced, 1}),
          .results = element_count(kept.shape),
          .count = element_count(reduced.shape)};
}

// Where results are written, or partial ones: fp32 [parts, results].
struct Destination {
  void* data;
  DType dtype;
  float scale;
  void* scratch = nullptr;
  int64_t most_parts = 1;
};

struct Planned {
  CudaLaunch launch;
  int64_t parts;
};

Planned plan_stage(const Problem& problem, const Destination& to) {
  // Threads are adjacent along the axis that is contiguous in memory, the reduced one if both are.
  const bool by_columns = problem.reduced.strides[0].back() != 1 &&
                          problem.kept.strides[0].back() == 1 && problem.kept.shape.back() > 1;
  const Walk& together = by_columns ? problem.kept : problem.reduced;
  PackWidth pack(problem.dtype);
  if (together.strides[0].back() != 1) pack.limit_to(1);
  pack.require_multiple(together.shape.back());
  pack.require_address(problem.data, problem.dtype);
  for (const Walk* walk : {&problem.kept, &problem.reduced})
    for (int axis = 0; axis < walk->shape.rank(); ++axis)
      if (walk != &together || axis + 1 < walk->shape.rank())
        pack.require_multiple(walk->strides[0][axis]);

  ReduceParams params{};
  params.data = problem.data;
  params.results = problem.results;
  write_sizes(problem.kept, by_columns ? pack.get() : 1, params.kept_sizes);
  write_steps(problem.kept.strides[0], by_columns ? pack.get() : 1, params.kept_steps);
  write_sizes(problem.reduced, by_columns ? 1 : pack.get(), params.reduced_sizes);
  write_steps(problem.reduced.strides[0], by_columns ? 1 : pack.get(), params.reduced_steps);
  params.reduced = by_columns ? problem.count : problem.count / pack.get();

  int64_t group = kColumnLanes, blocks = 0, items_of_part = 0;  // items of a part, at least
  if (by_columns) {
    blocks = divide_up(problem.results / pack.get(), kColumnLanes);
    items_of_part = kColumnRows * kItemsOfThread;
  } else {
    group = std::min(next_power_of_two(divide_up(params.reduced, kItemsOfThread)), kThreads);
    blocks = divide_up(problem.results, group > 32 ? 1 : kThreads / group);
    items_of_part = kThreads * kItemsOfThread;
  }
  const int64_t threads = !by_columns && group > 32 ? group : kThreads;
  const int64_t parts = std::clamp<int64_t>(
      std::min<int64_t>(params.reduced / items_of_part, kFullDevice / blocks), 1, to.most_parts);
  params.part_size = divide_up(params.reduced, parts);
  const int64_t parts_used = divide_up(params.reduced, params.part_size);
  const bool finishes = parts_used == 1;
  params.out = finishes ? to.data : to.scratch;
  params.scale = finishes ? to.scale : 1.0f;

  CudaLaunch launch = launch_of(by_columns ? "reduce_columns" : "reduce_rows", blocks, threads,
                                {{"FOLD", problem.fold},
                                 {"IN", element_name(problem.dtype)},
                                 {"OUT", element_name(finishes ? to.dtype : DType::f32)},
                                 {"PACK", std::to_string(pack.get())},
                                 {"GROUP", std::to_string(group)},
                                 {"THREADS", std::to_string(threads)},
                                 {"KEPT_AXES", std::to_string(problem.kept.shape.rank())},
                                 {"REDUCED_AXES", std::to_string(problem.reduced.shape.rank())}},
                                params);
  launch.grid[1] = static_cast<uint32_t>(parts_used);
  return {std::move(launch), parts_used};
}

}  // namespace

std::vector<CudaLaunch> plan_reduction(const CudaCall& call) {
  const Problem problem = split_axes(call);
  const TensorView& out = call.outputs[0];
  const float scale = call.node.op == Op::mean
                          ? static_cast<float>(1.0 / static_cast<double>(problem.count))
                          : 1.0f;
  const bool may_cut = call.scratch != nullptr;
  Planned first =
      plan_stage(problem, {.data = out.data,
                           .dtype = out.dtype,
                           .scale = scale,
                           .scratch = call.scratch,
                           .most_parts = may_cut ? most_parts(problem.results, problem.count) : 1});
  if (first.parts == 1) return alone(std::move(first.launch));

  const TensorView columns{call.scratch, DType::f32, {problem.results}, {1}};
  const TensorView left{call.scratch, DType::f32, {first.parts}, {problem.results}};
  const Problem rest = {.fold = problem.fold,
                        .data = call.scratch,
                        .dtype = DType::f32,
                        .kept = make_walk(columns.shape, {&columns, 1}),
                        .reduced = make_walk(left.shape, {&left, 1}),
                        .results = problem.results,
                        .count = first.parts};
  Planned last = plan_stage(rest, {.data = out.data, .dtype = out.dtype, .scale = scale});
  std::vector<CudaLaunch> launches = alone(std::move(first.launch));
  launches.push_back(std::move(last.launch));
  return launches;
}

Bytes reduction_scratch(const Node& node, std::span<const TensorType> inputs, const CudaFacts&) {
  const int64_t results = element_count(node.outputs[0].shape);
  const int64_t parts = most_parts(results, element_count(inputs[0].shape) / results);
  return {parts == 1 ? 0 : results * parts * info(DType::f32).size};
}

}  // namespace ridgeline
