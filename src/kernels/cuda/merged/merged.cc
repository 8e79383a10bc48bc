#include "kernels/cuda/merged/merged.h"

#include <algorithm>
#include <cstring>

#include "codegen/emit.h"
#include "kernels/cuda/attention/flash_plan.h"
#include "kernels/cuda/matmul/few_rows.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

static_assert(kMostMergedOperands == size_t{kMergedOperands});

constexpr int64_t kAccess = 16;  // bytes of a pack of generated text, at most

std::vector<void*> memory_of(const Merge& merge, const std::function<TensorView(Value)>& view) {
  std::vector<void*> memory;
  for (const Merge::Memory& each : merge.memory) {
    const TensorView whole = view(each.storage);
    memory.push_back(static_cast<char*>(whole.data) + each.offset * info(whole.dtype).size);
  }
  return memory;
}

// Of each: what is worth having in the last cache before others have ended.
std::vector<int> kept_bytes_of(const Merge& merge, const std::function<TensorView(Value)>& view) {
  constexpr int64_t kMost = 16 << 10;
  std::vector<int> kept;
  for (const Merge::Memory& each : merge.memory) {
    const TensorView whole = view(each.storage);
    const int64_t bytes = (element_count(whole.shape) - each.offset) * info(whole.dtype).size;
    kept.push_back(whole.is_kept ? static_cast<int>(std::min(bytes, kMost)) : 0);
  }
  return kept;
}

// Generated text reads packs, which begin at multiples of their size from here on.
bool is_aligned(const Merge& merge, const std::function<TensorView(Value)>& view) {
  return std::ranges::all_of(merge.memory, [&](const Merge::Memory& each) {
    return reinterpret_cast<uintptr_t>(view(each.storage).data) % kAccess == 0;
  });
}

std::vector<CudaLaunch> plan_product(const Graph& graph, const Plan& plan, const Merge& merge,
                                     const CudaFacts& device,
                                     const std::function<TensorView(Value)>& view) {
  const Group& group = plan.kernels[merge.main].group;
  const Node& node = graph.nodes()[group.node];
  const TensorView x = view(node.inputs[0]), w = view(node.inputs[1]);
  const Value out = merge.pair ? plan.kernels[*merge.pair].group.kernel.results[0].to.storage
                               : group.into.value_or(Value{group.node, 0});
  const int64_t columns = w.shape.back(), depth = w.shape.back(1);
  const FewRowsProduct product{.x = x.data,
                               .w = w.data,
                               .out = view(out).data,
                               .x_stride = depth,
                               .w_stride = w.strides.back(),
                               .out_stride = merge.pair ? columns / 2 : columns,
                               .tokens = element_count(x.shape) / depth,
                               .rows = columns,
                               .columns = depth,
                               .dtype = w.dtype,
                               .weights_are_kept = w.is_kept};
  const MergedText text = emit_merged(graph, plan, merge);
  return plan_few_rows(product,
                       {.entry = text.entry,
                        .text = text.text,
                        .prepares = !merge.before.empty(),
                        .pairs = merge.pair.has_value(),
                        .memory = memory_of(merge, view),
                        .kept_bytes = kept_bytes_of(merge, view)},
                       device);
}

std::vector<CudaLaunch> plan_attention(const Graph& graph, const Plan& plan, const Merge& merge,
                                       const CudaFacts& device,
                                       const std::function<TensorView(Value)>& view) {
  const uint32_t number = plan.kernels[merge.main].group.node;
  const Node& node = graph.nodes()[number];
  std::vector<TensorView> inputs, outputs;
  for (const Value input : node.inputs) inputs.push_back(view(input));
  for (uint32_t i = 0; i < node.outputs.size(); ++i) outputs.push_back(view({number, i}));
  const CudaChooser nobody_chooses;
  std::vector<CudaLaunch> launches = plan_cached_attention({.node = node,
                                                            .inputs = inputs,
                                                            .outputs = outputs,
                                                            .device = device,
                                                            .choose = nobody_chooses});
  const TensorView value = view(merge.value_rows);
  // Whole packs of the newest value, as the kernel takes those of the caches.
  bool has_packs = reinterpret_cast<uintptr_t>(value.data) % kAccess == 0;
  for (const int axis : {0, 1})
    has_packs = has_packs && (value.shape[axis] == 1 || value.strides[axis] * 2 % kAccess == 0);
  if (launches.size() != 1 || !has_packs) return {};
  CudaLaunch& launch = launches[0];
  const MergedText text = emit_merged(graph, plan, merge);
  launch.kernel.file.clear();
  launch.kernel.entry = text.entry;
  launch.kernel.text = text.text;
  for (const auto& [name, bytes] : {std::pair{"PREPARES", int64_t{1}},
                                    {"SHARED_BYTES", text.shared_bytes},
                                    {"QUERIES_AT", text.shared_at[merge.query_rows]},
                                    {"KEY_AT", text.shared_at[merge.key_rows]}})
    launch.kernel.constants.emplace_back(name, std::to_string(bytes));
  CachedAttentionParams params;
  std::memcpy(&params, launch.params.data(), sizeof params);
  std::ranges::copy(memory_of(merge, view), params.memory);
  std::ranges::copy(kept_bytes_of(merge, view), params.kept_bytes);
  params.new_value = flash_tensor(value);
  launch.set_params(params);
  return launches;
}

}  // namespace

std::vector<CudaLaunch> plan_merged(const Graph& graph, const Plan& plan, const Merge& merge,
                                    const CudaFacts& device,
                                    const std::function<TensorView(Value)>& view) {
  if (device.compute_capability < 90 || !is_aligned(merge, view)) return {};
  return merge.kind == Merge::Kind::product ? plan_product(graph, plan, merge, device, view)
                                            : plan_attention(graph, plan, merge, device, view);
}

}  // namespace ridgeline
