// Plans ops over many tensors: as many as fit a kernel's parameters share a launch, each divided
// into pieces for blocks.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/planning.h"
#include "kernels/cuda/training/product_update.h"

namespace ridgeline {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kSummedPiece = 16384;  // elements of a block of a sum of squares
// Elements of a block of an update: one pack per thread. Blocks that loop over several issue later
// loads too late: 3.8 instead of 4.3 TB/s.
constexpr int64_t kUpdatedPiece = 4 * kThreads;
constexpr int64_t kMostBlocks = INT32_MAX;

int64_t step_of(const TensorView& flat) {
  return flat.shape[0] == 1 ? 1 : flat.strides[0];
}

// Tensors that can be read in whole packs, and the others.
struct Split {
  std::vector<size_t> packed, single;
};

template <class FitsPacks>
Split split(const std::vector<size_t>& tensors, FitsPacks fits_packs) {
  Split result;
  for (size_t i : tensors) (fits_packs(i) ? result.packed : result.single).push_back(i);
  return result;
}

bool is_aligned(const TensorView& view, int64_t pack) {
  return reinterpret_cast<uintptr_t>(view.data) %
             static_cast<uintptr_t>(pack * info(view.dtype).size) ==
         0;
}

// Calls fill(params, slot, tensor) for each tensor of a launch, finish(params, blocks) at its end.
template <class Params, class Fill, class Finish>
void for_each_launch(const std::vector<size_t>& tensors, std::span<const int64_t> counts,
                     int64_t piece, Fill fill, Finish finish) {
  constexpr size_t kSlots = std::size(Params{}.tensors);
  for (size_t begin = 0; begin < tensors.size();) {
    Params params{};
    int64_t blocks = 0;
    size_t slot = 0;
    for (; slot < kSlots && begin + slot < tensors.size(); ++slot) {
      const size_t tensor = tensors[begin + slot];
      if (slot > 0 && blocks + divide_up(counts[tensor], piece) > kMostBlocks) break;
      params.tensors[slot].first_block = static_cast<int>(blocks);
      params.tensors[slot].count = counts[tensor];
      fill(params, slot, tensor);
      blocks += divide_up(counts[tensor], piece);
    }
    params.count = static_cast<int>(slot);
    finish(params, blocks);
    begin += slot;
  }
}

AdamWNumbers numbers_of(const AdamWSpec& spec, std::span<const TensorView> inputs) {
  return {.scalars = inputs[0].as<float>(),
          .gradient_scale = spec.scaled ? inputs[1].as<float>() : nullptr,
          .keep_first = static_cast<float>(spec.beta1),
          .take_first = static_cast<float>(1 - spec.beta1),
          .keep_second = static_cast<float>(spec.beta2),
          .take_second = static_cast<float>(1 - spec.beta2),
          .epsilon = static_cast<float>(spec.epsilon),
          .weight_decay = static_cast<float>(spec.weight_decay)};
}

}  // namespace

Bytes sum_of_squares_scratch(const Node&, std::span<const TensorType> inputs, const CudaFacts&) {
  int64_t pieces = 0;
  for (const TensorType& type : inputs) pieces += divide_up(type.shape[0], kSummedPiece);
  return {pieces * info(DType::f32).size};
}

std::vector<CudaLaunch> plan_sum_of_squares(const CudaCall& call) {
  const DType dtype = call.inputs[0].dtype;
  const int64_t widest = 16 / info(dtype).size;
  std::vector<int64_t> counts;
  std::vector<size_t> all;
  for (const TensorView& input : call.inputs) {
    all.push_back(counts.size());
    counts.push_back(input.shape[0]);
  }
  const Split tensors = split(all, [&](size_t i) {
    return step_of(call.inputs[i]) == 1 && is_aligned(call.inputs[i], widest);
  });
  std::vector<CudaLaunch> launches;
  auto* sums = static_cast<float*>(call.scratch);
  const auto add = [&](const std::vector<size_t>& group, int64_t pack) {
    for_each_launch<SumOfSquaresParams>(
        group, counts, kSummedPiece,
        [&](SumOfSquaresParams& params, size_t slot, size_t tensor) {
          params.tensors[slot].data = call.inputs[tensor].data;
          params.tensors[slot].step = step_of(call.inputs[tensor]);
        },
        [&](SumOfSquaresParams& params, int64_t blocks) {
          params.sums = sums;
          sums += blocks;
          launches.push_back(launch_of("sum_of_squares", blocks, kThreads,
                                       {{"PACK", std::to_string(pack)},
                                        {"PIECE", std::to_string(kSummedPiece)},
                                        {"THREADS", std::to_string(kThreads)},
                                        {"TYPE", element_name(dtype)}},
                                       params));
        });
  };
  add(tensors.packed, widest);
  add(tensors.single, 1);

  const int64_t total = sums - static_cast<float*>(call.scratch);
  const TensorView left{call.scratch, DType::f32, {total}, {1}};
  const Node sum{.op = Op::sum, .inputs = {}, .attributes = {}, .outputs = {}, .name = {}};
  for (CudaLaunch& launch : plan_reduction({.node = sum,
                            .inputs = {&left, 1},
                            .outputs = call.outputs,
                            .device = call.device,
                            .scratch = nullptr,
                            .choose = call.choose}))
    launches.push_back(std::move(launch));
  return launches;
}

std::vector<CudaLaunch> plan_adamw_update(const CudaCall& call) {
  const auto& spec = std::get<AdamWSpec>(call.node.attributes.detail);
  const size_t count = call.outputs.size() / spec.results_of_each();
  const std::span<const TensorView> gradients =
      call.inputs.subspan(spec.first_parameter() + count, count);
  const DType parameter_dtype = call.outputs[0].dtype;
  const DType gradient_dtype = gradients[0].dtype;
  constexpr int64_t kWidest = 4;  // moments are fp32
  std::vector<int64_t> counts;
  for (const TensorView& gradient : gradients) counts.push_back(gradient.shape[0]);
  std::vector<size_t> given;  // gradients that are tensors, not products
  for (size_t i = 0; i < count; ++i)
    if (!spec.is_product(i)) given.push_back(i);
  const Split tensors = split(given, [&](size_t i) {
    return step_of(gradients[i]) == 1 && is_aligned(gradients[i], kWidest) &&
           is_aligned(call.outputs[i], kWidest) && is_aligned(call.outputs[count + i], kWidest) &&
           is_aligned(call.outputs[2 * count + i], kWidest) &&
           (!spec.copied || is_aligned(call.outputs[3 * count + i], kWidest));
  });
  const AdamWNumbers numbers = numbers_of(spec, call.inputs);
  std::vector<CudaLaunch> launches = plan_product_updates(call, numbers);
  const auto add = [&](const std::vector<size_t>& group, int64_t pack) {
    for_each_launch<AdamWParams>(
        group, counts, kUpdatedPiece,
        [&](AdamWParams& params, size_t slot, size_t i) {
          params.tensors[slot].parameter = call.outputs[i].data;
          params.tensors[slot].gradient = gradients[i].data;
          params.tensors[slot].first_moment = call.outputs[count + i].as<float>();
          params.tensors[slot].second_moment = call.outputs[2 * count + i].as<float>();
          params.tensors[slot].gradient_step = step_of(gradients[i]);
          params.tensors[slot].copy = spec.copied ? call.outputs[3 * count + i].data : nullptr;
        },
        [&](AdamWParams& params, int64_t blocks) {
          params.numbers = numbers;
          const DType copy_dtype = spec.copied ? call.outputs[3 * count].dtype : parameter_dtype;
          launches.push_back(launch_of("adamw", blocks, kThreads,
                                       {{"PACK", std::to_string(pack)},
                                        {"PIECE", std::to_string(kUpdatedPiece)},
                                        {"THREADS", std::to_string(kThreads)},
                                        {"PARAMETER", element_name(parameter_dtype)},
                                        {"GRADIENT", element_name(gradient_dtype)},
                                        {"COPY", element_name(copy_dtype)},
                                        {"COPIED", spec.copied ? "1" : "0"},
                                        {"CS336", spec.variant == AdamWVariant::cs336 ? "1" : "0"},
                                        {"SCALED", spec.skips    ? "2"
                                                   : spec.scaled ? "1"
                                                                 : "0"}},
                                       params));
        });
  };
  add(tensors.packed, kWidest);
  add(tensors.single, 1);
  return launches;
}

std::vector<CudaLaunch> plan_loss_scale_update(const CudaCall& call) {
  const auto& spec = std::get<LossScaleSpec>(call.node.attributes.detail);
  return alone(launch_of("loss_scale", 1, 1, {},
                         LossScaleParams{.state = call.outputs[0].as<float>(),
                                         .norm = call.inputs[1].as<float>(),
                                         .growth_interval = spec.growth_interval}));
}

}  // namespace ridgeline
