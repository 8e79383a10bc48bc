#include "kernels/cuda/attention/flash_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numbers>

#include "base/error.h"

namespace ridgeline {
namespace {

constexpr int kFar = 1 << 30;             // beyond every query and key
constexpr int64_t kMaxGridYZ = 65535;     // blocks that a grid holds along y and z
constexpr uint32_t kPlanesThreads = 128;  // of flash_planes.cu
constexpr uint32_t kSeenThreads = 1024;   // of flash_seen.cu

// From this length on, skipping saves more than it costs to find what is visible.
constexpr int64_t kLeastToSkip = 256;
bool is_long(int64_t queries, int64_t keys) {
  return std::min(queries, keys) >= kLeastToSkip;
}

const char* element_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "fp16";
    case DType::tf32:
      return "tf32";
    default:
      return "fp32";
  }
}

// The kernels have 32-bit strides inside a head.
int head_stride(int64_t stride) {
  if (stride > INT32_MAX || stride < INT32_MIN)
    throw Error(
        ErrorKind::unsupported,
        fmt::format("rows of attention lie {} elements apart, too far for the flash kernels",
                    stride),
        "make the tensor contiguous");
  return static_cast<int>(stride);
}

// Whether rows can be moved 16 bytes at a time.
bool is_aligned(const TensorView& view) {
  const int64_t chunk = 16 / info(view.dtype).size;
  const auto in_chunks = [&](int axis) {
    return view.shape[axis] == 1 || view.strides[axis] % chunk == 0;
  };
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.shape[3] % chunk == 0 &&
         (view.strides[3] == 1 || view.shape[3] == 1) && in_chunks(0) && in_chunks(1) &&
         in_chunks(2);
}

// The strides that TMA accepts; those of axes of size 1 do not matter.
constexpr int64_t kStrideUnit = 16, kMaxStride = int64_t{1} << 40;
int64_t box_stride(const TensorView& view, int axis) {
  return view.shape[axis] == 1 ? kStrideUnit : view.strides[axis] * info(view.dtype).size;
}
bool can_be_boxed(const TensorView& view) {
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t stride = box_stride(view, axis);
    if (stride <= 0 || stride >= kMaxStride || stride % kStrideUnit != 0) return false;
  }
  return element_count(view.shape) > 0;
}

}  // namespace

uint32_t grid_size(int64_t blocks) {
  if (blocks > std::numeric_limits<int32_t>::max())
    throw Error(ErrorKind::unsupported,
                fmt::format("attention would need {} blocks, more than a GPU counts", blocks));
  return static_cast<uint32_t>(blocks);
}

FlashTensor flash_tensor(const TensorView& view) {
  return {view.data, view.strides[0], view.strides[1], head_stride(view.strides[2]),
          head_stride(view.strides[3])};
}

BoxedTensor boxed_tensor(const TensorView& view, size_t map_offset, size_t tensor_offset,
                         int rows) {
  BoxedTensor boxed = {
      .map_offset = static_cast<uint32_t>(map_offset),
      .address_offset = static_cast<uint32_t>(tensor_offset + offsetof(FlashTensor, data)),
      .dtype = view.dtype,
      .box_rows = static_cast<uint32_t>(rows)};
  for (int axis = 0; axis < 4; ++axis)
    boxed.sizes[3 - axis] = static_cast<uint64_t>(view.shape[axis]);
  for (int axis = 0; axis < 3; ++axis)
    boxed.strides_bytes[2 - axis] = static_cast<uint64_t>(box_stride(view, axis));
  return boxed;
}

void FlashPlanes::reserve(ScratchParts& scratch, const FlashShape& shape, const Shape& tensor) {
  const int64_t all_heads = tensor[0] * tensor[1], row_blocks = divide_up(tensor[2], 16);
  params.planes[count] =
      scratch.take<unsigned short>(all_heads * tensor[2] * shape.planes() * shape.head_dim());
  params.factors[count] = scratch.take<float>(all_heads * row_blocks);
  params.batches = static_cast<int>(tensor[0]);
  params.heads[count] = static_cast<int>(tensor[1]);
  params.rows[count] = static_cast<int>(tensor[2]);
  blocks = std::max(blocks, all_heads * row_blocks);
  ++count;
}

FlashTensor FlashPlanes::tensor(int i, const FlashShape& shape) const {
  const int64_t row = shape.planes() * shape.head_dim(), head = row * params.rows[i];
  return {params.planes[i], head * params.heads[i], head, static_cast<int>(row), 1};
}

FlashPlan::FlashPlan(const CudaCall& call, std::span<const TensorView> tensors, size_t loaded,
                     size_t first_operand)
    : device(call.device),
      function(std::get<AttentionSpec>(call.node.attributes.detail).function.get()),
      operands(call.inputs.subspan(first_operand)) {
  const TensorView &q = call.inputs[0], &k = call.inputs[1];
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  batches = q.shape[0];
  heads = q.shape[1];
  key_heads = k.shape[1];
  shape = {.dtype = q.dtype,
           .width = static_cast<int>(std::min<int64_t>(q.shape[3], kMaxFlashWidth + 1)),
           .queries = q.shape[2],
           .keys = k.shape[2],
           .heads = batches * heads,
           .key_heads = batches * key_heads,
           .mask = 0,
           .function = function != nullptr};
  mask_first = -kFar;
  mask_last = kFar;
  if (std::max(shape.queries, shape.keys) >= kFar)
    throw Error(ErrorKind::unsupported,
                fmt::format("{} queries and {} keys are more than the flash kernels count",
                            shape.queries, shape.keys));
  if (!(spec.scale > 0))
    throw Error(
        ErrorKind::unsupported,
        fmt::format("the scale of attention is {}, the flash kernels expect it to be positive",
                    spec.scale),
        "fold the sign into the queries");
  scale = static_cast<float>(spec.scale);
  const AttentionMask& mask = spec.mask;
  const bool bottom_right = mask.alignment == AttentionMask::Alignment::bottom_right;
  const int64_t shift = bottom_right ? shape.keys - shape.queries : 0;
  if (mask.causal || mask.window > 0) mask_last = static_cast<int>(shift + 1);
  if (mask.window > 0)
    mask_first = static_cast<int>(std::max<int64_t>(-kFar, shift + 1 - mask.window));
  shape.mask = mask.window > 0 ? 2 : mask.causal ? 1 : 0;
  shape.covers = mask_last >= 1 && shape.keys - mask_last < shape.queries && mask_first <= 0 &&
                 shape.queries - 1 + mask_first < shape.keys;
  shape.aligned = std::ranges::all_of(tensors, is_aligned);
  shape.boxed = std::ranges::all_of(tensors.first(loaded), can_be_boxed);
  grouped = shape.mask != 0 || std::max(heads, batches) > kMaxGridYZ;
}

int64_t visible_range_count(const AttentionSpec& spec, const Shape& q, const Shape& k,
                            int64_t rows) {
  const bool wanted =
      spec.function != nullptr && is_long(q[2], k[2]) && !score_conditions(*spec.function).empty();
  return wanted ? q[0] * q[1] * divide_up(rows, kVisibleGroup) : 0;
}

// Conditions on positions alone seldom narrow what a mask leaves visible.
bool FlashPlan::skips() const {
  if (function == nullptr || !is_long(shape.queries, shape.keys)) return false;
  return std::ranges::any_of(score_conditions(*function), [&](const ScoreCondition& each) {
    for (size_t i = 0; i < operands.size(); ++i)
      if (reads_input(*function, each.condition, i + 1)) return true;
    return shape.mask == 0;
  });
}

CudaLaunch FlashPlan::seen_launch(bool of_keys, const VisibleRange* ranges) const {
  const auto [batches_differ, heads_differ] = score_visible_axes(*function, operands);
  FlashSeenParams params = {};
  put_operands(params);
  params.ranges = const_cast<VisibleRange*>(ranges);
  params.heads = static_cast<int>(!heads_differ ? 1 : of_keys ? key_heads : heads);
  params.group = static_cast<int>(heads_differ && of_keys ? heads / key_heads : 1);
  params.groups = static_cast<int>(divide_up(of_keys ? shape.keys : shape.queries, kVisibleGroup));
  params.queries = static_cast<int>(shape.queries);
  params.keys = static_cast<int>(shape.keys);
  CudaLaunch result;
  result.kernel = {"flash_seen.cu",
                   of_keys ? "flash_seen_queries" : "flash_seen_keys",
                   {{"SCORE_VISIBLE", score_visible_text(*function, operands)}}};
  result.grid[0] =
      grid_size(int64_t{params.groups} * params.heads * (batches_differ ? batches : 1));
  result.threads = kSeenThreads;
  result.set_params(params);
  return result;
}

void FlashPlan::put_visible_axes(CudaLaunch& launch) const {
  const auto [batches_differ, heads_differ] = score_visible_axes(*function, operands);
  launch.kernel.constants.emplace_back("VISIBLE_AXES",
                                       fmt::format("{}{}", batches_differ ? "along::batches" : "0",
                                                   heads_differ ? " | along::heads" : ""));
}

float FlashPlan::scale_log2() const {
  return scale * std::numbers::log2e_v<float>;
}

int FlashPlan::heads_at_once(int64_t tiles, int64_t all_heads) const {
  const int64_t head_bytes =
      std::max<int64_t>(1, 2 * shape.keys * shape.width * info(shape.dtype).size);
  const int64_t fitting = std::clamp<int64_t>(device.l2_bytes * 11 / 20 / head_bytes, 1,
                                              std::min(all_heads, INT32_MAX / tiles));
  // Equal groups, unless that would halve them: a small last group leaves multiprocessors idle.
  int64_t even = fitting;
  while (all_heads % even != 0) --even;
  return static_cast<int>(2 * even >= fitting ? even : fitting);
}

CudaLaunch FlashPlan::launch(const char* file, const char* entry, CudaConstants constants) const {
  CudaLaunch result;
  result.kernel = {file, entry, std::move(constants)};
  auto& all = result.kernel.constants;
  const auto put = [&](const char* name, auto value) {
    all.emplace_back(name, fmt::format("{}", value));
  };
  put("ELEMENT", element_type(shape.dtype));
  put("WIDTH", shape.width);
  put("HEAD_DIM", shape.head_dim());
  put("ALIGNED", shape.aligned ? 1 : 0);
  put("MASK", shape.mask);
  put("GROUPED", grouped ? 1 : 0);
  return result;
}

void FlashPlan::put_function(CudaLaunch& launch, bool with_gradient) const {
  if (function == nullptr) return;
  auto& constants = launch.kernel.constants;
  constants.emplace_back("SCORE_VALUE", score_value_text(*function, operands));
  if (with_gradient && !constant_score_gradient(*function))
    constants.emplace_back("SCORE_GRADIENT", score_gradient_text(*function, operands));
}

float FlashPlan::gradient_scale() const {
  const auto factor =
      function != nullptr ? constant_score_gradient(*function) : std::optional<double>();
  return scale * static_cast<float>(factor.value_or(1));
}

CudaLaunch FlashPlan::planes_launch(FlashPlanes planes, std::span<const TensorView> tensors) const {
  for (size_t i = 0; i < tensors.size(); ++i) planes.params.from[i] = flash_tensor(tensors[i]);
  CudaLaunch result = launch("flash_planes.cu", "flash_planes", {});
  result.grid = {grid_size(divide_up(planes.blocks, kPlanesThreads / 32)),
                 static_cast<uint32_t>(planes.count), 1};
  result.threads = kPlanesThreads;
  result.set_params(planes.params);
  return result;
}

std::array<uint32_t, 3> FlashPlan::grid(int64_t tiles, int64_t heads_of_batch) const {
  if (grouped) return {grid_size(tiles * heads_of_batch * batches), 1, 1};
  return {grid_size(tiles), static_cast<uint32_t>(heads_of_batch), static_cast<uint32_t>(batches)};
}

std::string FlashPlan::tuning_key(const char* kernel) const {
  return fmt::format(
      "{} {} width={} mask={} queries={} keys={} heads={} key_heads={} aligned={}{}{}{}", kernel,
      element_type(shape.dtype), shape.width, shape.mask, shape.queries, shape.keys, shape.heads,
      shape.key_heads, shape.aligned ? 1 : 0, shape.boxed ? "" : " boxed=0",
      device.reserved_multiprocessors > 0 ? fmt::format(" sms={}", device.multiprocessors) : "",
      function != nullptr ? " f: " + score_value_text(*function, operands) : "");
}

std::pair<std::string, std::string> constant(const char* name, int value) {
  return {name, std::to_string(value)};
}

FlashShape scratch_shape(const TensorType& q) {
  return {.dtype = q.dtype,
          .width = static_cast<int>(std::min<int64_t>(q.shape[3], kMaxFlashWidth + 1))};
}

}  // namespace ridgeline
