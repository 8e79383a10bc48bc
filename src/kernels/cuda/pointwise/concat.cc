// Plans concat: one launch if its parts fit the parameters, else a copy for each part.
#include <algorithm>
#include <iterator>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/planning.h"
#include "kernels/cuda/pointwise/pointwise.h"

namespace ridgeline {
namespace {

constexpr int64_t kConcatItemsPerBlock = 1024;  // as in concat.cu: four for each of 256 threads
constexpr size_t kMostParts = std::size(ConcatParams{}.parts);

// The axes [first, last) of a view.
TensorView axes_of(TensorView view, int first, int last) {
  const auto cut = [&](const Dims& dims) {
    return Dims(dims.span().subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)));
  };
  view.shape = cut(view.shape);
  view.strides = cut(view.strides);
  return view;
}

std::vector<CudaLaunch> plan_copies(const CudaCall& call, int axis) {
  std::vector<CudaLaunch> launches;
  int64_t begin = 0;
  for (const TensorView& input : call.inputs) {
    const int64_t end = begin + input.shape[axis];
    launches.push_back(plan_copy(input, part_of(call.outputs[0], axis, begin, end)));
    begin = end;
  }
  return launches;
}

}  // namespace

std::vector<CudaLaunch> plan_concat(const CudaCall& call) {
  const auto axis = static_cast<int>(std::get<Axes>(call.node.attributes.detail).axes[0]);
  const TensorView& out = call.outputs[0];
  const auto is_value = [](const TensorView& input) { return input.host_scalar; };
  if (call.inputs.size() > kMostParts || out.shape[axis] > INT32_MAX ||
      std::any_of(call.inputs.begin(), call.inputs.end(), is_value))
    return plan_copies(call, axis);

  std::vector<TensorView> before, behind;
  for (const TensorView& input : call.inputs) {
    before.push_back(axes_of(input, 0, axis));
    behind.push_back(axes_of(input, axis + 1, out.shape.rank()));
  }
  const Walk outer = make_walk(before[0].shape, before);
  const Walk inner = make_walk(behind[0].shape, behind);
  PackWidth pack(out.dtype);
  pack.require_multiple(inner.shape.back());
  pack.require_address(out.data, out.dtype);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (inner.strides[i].back() != 1) pack.limit_to(1);
    pack.require_address(call.inputs[i].data, out.dtype);
    pack.require_multiple(call.inputs[i].strides[axis]);
    for (int64_t step : outer.strides[i]) pack.require_multiple(step);
    for (int other = 0; other + 1 < inner.shape.rank(); ++other)
      pack.require_multiple(inner.strides[i][other]);
  }

  ConcatParams params{};
  params.out = out.data;
  params.items = element_count(out.shape) / pack.get();
  params.axis_size = static_cast<int>(out.shape[axis]);
  params.inner = element_count(behind[0].shape) / pack.get();
  write_sizes(outer, 1, params.outer_sizes);
  write_sizes(inner, pack.get(), params.inner_sizes);
  int begin = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    auto& part = params.parts[i];
    part.data = call.inputs[i].data;
    part.begin = begin;
    part.end = begin += static_cast<int>(call.inputs[i].shape[axis]);
    part.axis_step = call.inputs[i].strides[axis];
    write_steps(outer.strides[i], 1, part.outer_steps);
    write_steps(inner.strides[i], pack.get(), part.inner_steps);
  }
  return alone(launch_of("concat", divide_up(params.items, kConcatItemsPerBlock), 256,
                         {{"TYPE", element_name(out.dtype)},
                          {"PACK", std::to_string(pack.get())},
                          {"OUTER_AXES", std::to_string(outer.shape.rank())},
                          {"INNER_AXES", std::to_string(inner.shape.rank())},
                          {"INDEX", index_name(params.items)}},
                         params));
}

}  // namespace ridgeline
