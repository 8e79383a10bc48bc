// Plans softmax, log-softmax and their gradients: how many threads hold a row, and how much each.
#include <algorithm>
#include <array>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kMaxThreads = 1024;
constexpr int64_t kMaxChunks = 16;         // each needs an address, which takes registers too
constexpr int64_t kShortRowThreads = 128;  // of a block of groups no wider than a warp

struct RowOp {
  const char* name;
  const char* long_name;
  int64_t elements;       // that a thread may hold in registers, of each operand
  int64_t long_elements;  // that it handles at a time in long rows
};

constexpr RowOp kSoftmax = {"softmax", "softmax_long", 32, 16};
constexpr RowOp kSoftmaxGradient = {"softmax_gradient", "softmax_gradient_long", 16, 16};

// The axes before the last one.
TensorView without_columns(TensorView view) {
  const auto rank = static_cast<size_t>(view.shape.rank() - 1);
  view.shape = Shape(view.shape.span().first(rank));
  view.strides = Strides(view.strides.span().first(rank));
  return view;
}

std::vector<CudaLaunch> plan_rows(const RowOp& op, const CudaCall& call, bool logarithm) {
  const TensorView& out = call.outputs[0];
  const int64_t width = out.shape.back();
  const size_t count = call.inputs.size();
  std::array<TensorView, 2> heads;
  for (size_t t = 0; t < count; ++t) heads[t] = without_columns(call.inputs[t]);
  const Walk walk = make_walk(without_columns(out).shape, {heads.data(), count});

  RowsParams params{};
  params.width = width;
  params.rows = element_count(out.shape) / width;
  params.out = out.data;
  write_sizes(walk, 1, params.sizes);
  bool even = true;
  PackWidth pack(out.dtype);
  pack.require_multiple(width);
  pack.require_address(out.data, out.dtype);
  for (size_t t = 0; t < count; ++t) {
    params.operands[t].data = heads[t].data;
    params.column_steps[t] = call.inputs[t].strides.back();
    write_steps(walk.strides[t], 1, params.operands[t].steps);
    even = even && (width == 1 || params.column_steps[t] == 1);
    pack.require_address(heads[t].data, heads[t].dtype);
    for (int64_t step : walk.strides[t]) pack.require_multiple(step);
  }
  if (!even) pack.limit_to(1);

  // At most a warp if that suffices, else as few warps as can hold the row.
  const int64_t packs = width / pack.get();
  const int64_t most_chunks = std::clamp<int64_t>(op.elements / pack.get(), 1, kMaxChunks);
  int64_t group = next_power_of_two(std::min(packs, kWarp));
  while (group < kMaxThreads && divide_up(packs, group) > most_chunks) group *= 2;
  const bool fits = divide_up(packs, group) <= most_chunks;
  const int64_t chunks = fits ? next_power_of_two(divide_up(packs, group))
                              : std::max<int64_t>(1, op.long_elements / pack.get());
  const int64_t threads = group > kWarp ? group : kShortRowThreads;

  return alone(launch_of(fits ? op.name : op.long_name, divide_up(params.rows, threads / group),
                         threads,
                         {{"TYPE", element_name(out.dtype)},
                          {"PACK", std::to_string(pack.get())},
                          {"CHUNKS", std::to_string(chunks)},
                          {"GROUP", std::to_string(group)},
                          {"THREADS", std::to_string(threads)},
                          {"MIN_BLOCKS", std::to_string(kMaxThreads / threads)},
                          {"AXES", std::to_string(walk.shape.rank())},
                          {"INDEX", index_name(params.rows)},
                          {"EVEN", even ? "1" : "0"},
                          {"LOG", logarithm ? "1" : "0"}},
                         params));
}

}  // namespace

std::vector<CudaLaunch> plan_softmax(const CudaCall& call) {
  return plan_rows(kSoftmax, call, false);
}

std::vector<CudaLaunch> plan_log_softmax(const CudaCall& call) {
  return plan_rows(kSoftmax, call, true);
}

std::vector<CudaLaunch> plan_softmax_gradient(const CudaCall& call) {
  return plan_rows(kSoftmaxGradient, call, false);
}

std::vector<CudaLaunch> plan_log_softmax_gradient(const CudaCall& call) {
  return plan_rows(kSoftmaxGradient, call, true);
}

}  // namespace ridgeline
