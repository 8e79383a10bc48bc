#include "api/tensor_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace ridgeline {
namespace {

// No machine addresses more bytes, and no product of a size and a stride below it overflows.
constexpr int64_t kMostBytes = int64_t{1} << 56;
constexpr int kSequenceAxis = 2;

Error invalid_tensor(const char* name, const std::string& what, std::string next_step = {}) {
  return {ErrorKind::usage, fmt::format("{} {}", name, what), std::move(next_step)};
}

DType read_dtype(const rl_dtype& dtype, const char* name, Access access) {
  if (dtype.lanes == 1 && dtype.code == RL_FLOAT && dtype.bits == 32) return DType::f32;
  if (dtype.lanes == 1 && dtype.code == RL_FLOAT && dtype.bits == 16) return DType::f16;
  if (dtype.lanes == 1 && dtype.code == RL_BFLOAT && dtype.bits == 16) return DType::bf16;
  if (access == Access::operand && dtype.lanes == 1) {
    if (dtype.code == RL_INT && dtype.bits == 32) return DType::i32;
    if (dtype.code == RL_BOOL && dtype.bits == 8) return DType::boolean;
  }
  throw Error(ErrorKind::unsupported,
              fmt::format("{} has dtype {{code {}, bits {}, lanes {}}}", name, dtype.code,
                          dtype.bits, dtype.lanes),
              "use fp32 {2, 32, 1}, fp16 {2, 16, 1} or bf16 {4, 16, 1}");
}

Dims read_dims(const int64_t* given, int rank) {
  Dims dims = Dims::filled(rank, 0);
  for (int axis = 0; axis < rank; ++axis)
    std::memcpy(&dims[axis], given + axis, sizeof(int64_t));  // at any address
  return dims;
}

Shape read_shape(const rl_tensor& tensor, const char* name) {
  const Shape shape = read_dims(tensor.shape, tensor.ndim);
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size < 1)
      throw invalid_tensor(name, fmt::format("has shape {}", to_string(shape)),
                           "use sizes from 1 on");
    if (__builtin_mul_overflow(elements, size, &elements) || elements > kMostBytes)
      throw invalid_tensor(
          name, fmt::format("has shape {}, more elements than memory can hold", to_string(shape)));
  }
  return shape;
}

Strides read_strides(const rl_tensor& tensor, const char* name, const Shape& shape, Access access) {
  Strides strides = contiguous_strides(shape);
  if (tensor.strides == nullptr) return strides;
  const Strides given = read_dims(tensor.strides, tensor.ndim);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (given[axis] < 0 && access != Access::operand)
      throw invalid_tensor(name, fmt::format("has strides {}", to_string(given)),
                           "strides are not negative: copy the tensor");
    if (shape[axis] > 1) strides[axis] = given[axis];  // others are never walked
  }
  return strides;
}

// The bytes of a tensor, counted from its first element; that is not the lowest where strides are
// negative.
struct Extent {
  int64_t low = 0, high = 0;
};

Extent extent(const TensorView& view, const char* name) {
  Extent elements;
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    int64_t reach = 0;
    int64_t& side = view.strides[axis] < 0 ? elements.low : elements.high;
    if (__builtin_mul_overflow(view.shape[axis] - 1, view.strides[axis], &reach) ||
        __builtin_add_overflow(side, reach, &side) || side > kMostBytes / 8 ||
        side < -kMostBytes / 8)
      throw invalid_tensor(name,
                           fmt::format("has shape {} and strides {}, which reach beyond all memory",
                                       to_string(view.shape), to_string(view.strides)));
  }
  const int64_t size = info(view.dtype).size;
  return {elements.low * size, (elements.high + 1) * size};
}

struct Step {
  int64_t size = 1, stride = 0;
};

// The axes of a tensor that are walked, by rising stride.
struct Steps {
  std::array<Step, kMaxRank> list;
  int count = 0;

  void add(Step step) {
    if (step.size == 1) return;
    int at = count++;
    for (; at > 0 && list[static_cast<size_t>(at - 1)].stride > step.stride; --at)
      list[static_cast<size_t>(at)] = list[static_cast<size_t>(at - 1)];
    list[static_cast<size_t>(at)] = step;
  }
};

// Whether cells of `cell` elements at all multiples of these steps are apart from each other: each
// step goes beyond what the shorter ones reach together.
bool apart(const Steps& steps, int64_t cell) {
  int64_t reach = cell;
  for (int i = 0; i < steps.count; ++i) {
    const Step& step = steps.list[static_cast<size_t>(i)];
    if (step.stride < reach) return false;
    reach += (step.size - 1) * step.stride;
  }
  return true;
}

Steps steps_of(const TensorView& view) {
  Steps steps;
  for (int axis = 0; axis < view.shape.rank(); ++axis)
    steps.add({view.shape[axis], view.strides[axis]});
  return steps;
}

// Whether two tensors whose bytes interleave share no element: along some axes they take the same
// steps, and inside the cell that those leave free they lie beside each other.
bool interleave(const ClaimedTensor& low, const ClaimedTensor& high) {
  const TensorView &a = low.view, &b = high.view;
  if (a.dtype != b.dtype || a.shape.rank() != b.shape.rank()) return false;
  for (const TensorView* view : {&a, &b})
    for (int64_t stride : view->strides)
      if (stride < 0) return false;
  const int64_t size = info(a.dtype).size;
  const auto bytes_between = static_cast<int64_t>(high.begin - low.begin);
  if (bytes_between % size != 0) return false;
  const int64_t between = bytes_between / size;
  for (int cut = 0; cut < a.shape.rank(); ++cut) {
    const int64_t cell = a.strides[cut];
    if (cell == 0 || cell != b.strides[cut]) continue;
    Steps outer;
    int64_t a_reach = 1, b_reach = 1;
    bool alike = true;
    for (int axis = 0; axis < a.shape.rank(); ++axis) {
      const int64_t most = std::max(a.shape[axis], b.shape[axis]);
      if (most == 1) continue;
      if (std::max(a.strides[axis], b.strides[axis]) < cell) {
        a_reach += (a.shape[axis] - 1) * a.strides[axis];
        b_reach += (b.shape[axis] - 1) * b.strides[axis];
      } else {
        alike = alike && a.strides[axis] == b.strides[axis];
        outer.add({most, a.strides[axis]});
      }
    }
    if (alike && a_reach <= between && between + b_reach <= cell && apart(outer, cell)) return true;
  }
  return false;
}

bool share_memory(const ClaimedTensor& a, const ClaimedTensor& b) {
  if (a.end <= b.begin || b.end <= a.begin) return false;
  return a.begin <= b.begin ? !interleave(a, b) : !interleave(b, a);
}

}  // namespace

ClaimedTensor read_tensor(const rl_tensor* given, const char* name, const TensorRules& rules,
                          Access access) {
  const rl_device& device = rules.device;
  if (given == nullptr) throw invalid_tensor(name, "is null", "pass a tensor");
  rl_tensor tensor = {};
  std::memcpy(&tensor, given, sizeof tensor);
  if (tensor.device.type != device.type || tensor.device.id != device.id)
    throw invalid_tensor(
        name,
        fmt::format("is on device {{type {}, id {}}}, the context on {{type {}, id {}}}",
                    tensor.device.type, tensor.device.id, device.type, device.id),
        "give all tensors the device of the context");
  if (tensor.ndim < 1 || tensor.ndim > kMaxRank)
    throw invalid_tensor(name, fmt::format("has {} axes", tensor.ndim),
                         "use 4, or 3 for log_sum_exp");
  if (tensor.shape == nullptr) throw invalid_tensor(name, "has no shape: its pointer is null");
  if (tensor.data == nullptr && rules.needs_data)
    throw invalid_tensor(name, "has no memory: its data is null");

  ClaimedTensor claimed{.name = name, .view = {}};
  TensorView& view = claimed.view;
  view.dtype = read_dtype(tensor.dtype, name, access);
  view.shape = read_shape(tensor, name);
  view.strides = read_strides(tensor, name, view.shape, access);
  const Extent bytes = extent(view, name);
  uintptr_t first = 0;
  bool inside =
      !__builtin_add_overflow(reinterpret_cast<uintptr_t>(tensor.data), tensor.byte_offset, &first);
  inside = inside && !__builtin_add_overflow(first, bytes.high, &claimed.end);
  inside = inside && (!__builtin_add_overflow(first, bytes.low, &claimed.begin) || first == 0);
  if (!inside)
    throw invalid_tensor(name,
                         fmt::format("reaches beyond the last address: byte_offset {}, {} bytes",
                                     tensor.byte_offset, bytes.high - bytes.low));
  const auto size = static_cast<uintptr_t>(info(view.dtype).size);
  if (first % size != 0)
    throw invalid_tensor(
        name, fmt::format("begins at address {:#x}, which is no multiple of its {} bytes "
                          "per element",
                          first, size));
  view.data = reinterpret_cast<void*>(first);

  if (access == Access::write && !apart(steps_of(view), 1))
    throw invalid_tensor(
        name,
        fmt::format("has shape {} and strides {}: elements of this result would share "
                    "memory",
                    to_string(view.shape), to_string(view.strides)),
        "give it memory for every element");
  // What work costs is then bounded by memory that is there.
  for (int axis = kSequenceAxis; access != Access::operand && axis < view.shape.rank(); ++axis)
    if (view.shape[axis] > 1 && view.strides[axis] == 0)
      throw invalid_tensor(name,
                           fmt::format("has strides {}: 0 is served along batch and heads only",
                                       to_string(view.strides)),
                           "copy the tensor");
  return claimed;
}

void expect_rank(const ClaimedTensor& tensor, int rank, const char* axes) {
  if (tensor.view.shape.rank() != rank)
    throw invalid_tensor(
        tensor.name, fmt::format("has shape {}, expected {}", to_string(tensor.view.shape), axes));
}

void expect_type(const ClaimedTensor& tensor, DType dtype, const Shape& shape) {
  if (tensor.view.dtype != dtype)
    throw invalid_tensor(
        tensor.name,
        fmt::format("is {}, expected {}", info(tensor.view.dtype).name, info(dtype).name),
        "give all tensors the dtype of q, and log_sum_exp fp32");
  if (!(tensor.view.shape == shape))
    throw invalid_tensor(tensor.name, fmt::format("has shape {}, expected {}",
                                                  to_string(tensor.view.shape), to_string(shape)));
}

void expect_apart(std::span<const ClaimedTensor> outputs, std::span<const ClaimedTensor> inputs) {
  const auto expect = [](const ClaimedTensor& output, const ClaimedTensor& other) {
    if (share_memory(output, other))
      throw invalid_tensor(output.name, fmt::format("shares memory with {}", other.name),
                           "results need memory of their own");
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const ClaimedTensor& input : inputs) expect(outputs[i], input);
    for (size_t j = 0; j < i; ++j) expect(outputs[i], outputs[j]);
  }
}

void expect_workspace(const void* workspace, size_t bytes, size_t needed,
                      std::initializer_list<std::span<const ClaimedTensor>> tensors) {
  const auto begin = reinterpret_cast<uintptr_t>(workspace);
  uintptr_t end = 0;
  if (bytes < needed)
    throw invalid_tensor("workspace", fmt::format("has {} bytes, {} are needed", bytes, needed),
                         "ask the _workspace function of the call, or pass null");
  if (begin % kWorkspaceAlignment != 0 || __builtin_add_overflow(begin, bytes, &end))
    throw invalid_tensor("workspace",
                         fmt::format("of {} bytes begins at address {:#x}", bytes, begin),
                         fmt::format("align it to {} bytes", kWorkspaceAlignment));
  for (std::span<const ClaimedTensor> list : tensors)
    for (const ClaimedTensor& tensor : list)
      if (begin < tensor.end && tensor.begin < end)
        throw invalid_tensor("workspace", fmt::format("shares memory with {}", tensor.name));
}

}  // namespace ridgeline
