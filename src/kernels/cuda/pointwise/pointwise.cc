#include "kernels/cuda/pointwise/pointwise.h"

#include <array>
#include <cstring>

#include "base/error.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

constexpr int64_t kItemsPerBlock = 1024;  // as in pointwise.cu: four for each of 256 threads
constexpr size_t kMaxInputs = 3;

std::string_view function_name(Op op) {
  const PointwiseRow* row = pointwise_row(op);
  if (row == nullptr)
    throw Error(ErrorKind::internal,
                std::string(info(op).name) + " was planned as a pointwise op, which it is not");
  return row->function();
}

const char* kind_name(const TensorView& input, int64_t inner_stride) {
  if (input.host_scalar) return "kValue";
  return inner_stride == 0 ? "kSpread" : "kPacked";
}

// Elements per access: as many as all operands that are accessed in packs allow.
int64_t pack_width(const Walk& walk, std::span<const TensorView> tensors) {
  PackWidth pack(tensors.back().dtype);
  const bool flat = walk.shape.rank() == 1;  // then the last pack may be partial
  if (!flat) pack.require_multiple(walk.shape.back());
  for (size_t t = 0; t < tensors.size(); ++t) {
    const bool is_result = t + 1 == tensors.size();
    const int64_t inner = walk.strides[t].back();
    if (inner == 0 && !is_result) continue;
    if (inner != 1) return 1;
    pack.limit_to(16 / info(tensors[t].dtype).size);
    pack.require_address(tensors[t].data, tensors[t].dtype);
    for (int axis = 0; axis + 1 < walk.shape.rank(); ++axis)
      pack.require_multiple(walk.strides[t][axis]);
  }
  return pack.get();
}

}  // namespace

CudaLaunch plan_pointwise_op(Op op, std::span<const TensorView> inputs, const TensorView& out) {
  std::array<TensorView, kMaxInputs + 1> storage;
  const std::span<TensorView> tensors(storage.data(), inputs.size() + 1);
  std::copy(inputs.begin(), inputs.end(), tensors.begin());
  tensors.back() = out;
  const Walk walk = make_walk(out.shape, tensors);
  const int64_t pack = pack_width(walk, tensors);

  PointwiseParams params{};
  write_sizes(walk, pack, params.sizes);
  params.items = 1;
  for (int axis = 0; axis < walk.shape.rank(); ++axis)
    params.items *= static_cast<long long>(params.sizes[axis]);
  params.tail = static_cast<int>(walk.shape.back() % pack);
  for (size_t t = 0; t < tensors.size(); ++t) {
    WalkOperand& operand = params.operands[t == inputs.size() ? kMaxInputs : t];
    if (tensors[t].host_scalar) {
      std::memcpy(&operand.bits, tensors[t].data, static_cast<size_t>(info(tensors[t].dtype).size));
    } else {
      operand.data = tensors[t].data;
      write_steps(walk.strides[t], pack, operand.steps);
    }
  }

  CudaLaunch launch{.kernel = {.file = "pointwise.cu", .entry = "pointwise"}};
  auto& constants = launch.kernel.constants;
  constants.reserve(7 + 2 * inputs.size());
  constants.emplace_back("OP", function_name(op));
  constants.emplace_back("ARITY", std::to_string(inputs.size()));
  static constexpr std::array kTypes = {"IN0", "IN1", "IN2"};
  static constexpr std::array kKinds = {"KIND0", "KIND1", "KIND2"};
  for (size_t t = 0; t < inputs.size(); ++t) {
    constants.emplace_back(kTypes[t], element_name(inputs[t].dtype));
    constants.emplace_back(kKinds[t], kind_name(inputs[t], walk.strides[t].back()));
  }
  constants.emplace_back("OUT", element_name(out.dtype));
  constants.emplace_back("PACK", std::to_string(pack));
  constants.emplace_back("AXES", std::to_string(walk.shape.rank()));
  constants.emplace_back("INDEX", index_name(params.items));
  constants.emplace_back("TAIL", params.tail == 0 ? "0" : "1");
  launch.grid = {static_cast<uint32_t>(divide_up(params.items, kItemsPerBlock)), 1, 1};
  launch.threads = 256;
  launch.set_params(params);
  return launch;
}

CudaLaunch plan_copy(const TensorView& from, const TensorView& to) {
  return plan_pointwise_op(Op::cast, {&from, 1}, to);
}

std::vector<CudaLaunch> plan_pointwise(const CudaCall& call) {
  return alone(plan_pointwise_op(call.node.op, call.inputs, call.outputs[0]));
}

// The result is contiguous, so it can be written in the shape of the input.
std::vector<CudaLaunch> plan_reshape(const CudaCall& call) {
  TensorView out = call.outputs[0];
  out.shape = call.inputs[0].shape;
  out.strides = contiguous_strides(out.shape);
  return alone(plan_copy(call.inputs[0], out));
}

std::vector<CudaLaunch> plan_pad(const CudaCall& call) {
  const auto& [axis, begin, end] = std::get<Range>(call.node.attributes.detail);
  const TensorView& out = call.outputs[0];
  float zero = 0;
  const TensorView nothing{&zero, DType::f32, {}, {}, true};
  const int64_t size = out.shape[axis];
  std::vector<CudaLaunch> launches =
      alone(plan_copy(call.inputs[0], part_of(out, axis, begin, end)));
  if (begin > 0) launches.push_back(plan_copy(nothing, part_of(out, axis, 0, begin)));
  if (end < size) launches.push_back(plan_copy(nothing, part_of(out, axis, end, size)));
  return launches;
}

std::vector<CudaLaunch> plan_iota(const CudaCall& call) {
  constexpr int64_t kThreads = 256;
  const int64_t count = call.outputs[0].shape[0];
  return alone(launch_of("iota", divide_up(count, kThreads), kThreads, {},
                         IotaParams{call.outputs[0].as<int>(), count}));
}

}  // namespace ridgeline
