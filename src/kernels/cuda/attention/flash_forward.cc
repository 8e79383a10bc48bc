// Plans an attention node: splits 32-bit elements into planes, then launches the forward kernel
// with the chosen tile.
#include <cstddef>

#include "kernels/cuda/attention/flash_plan.h"
#include "kernels/cuda/kernels.h"

namespace ridgeline {
namespace {

CudaLaunch kernel_launch(const FlashPlan& plan, const ForwardTile& tile) {
  const auto rows = constant("ROWS", tile.rows), keys = constant("KEYS", tile.keys),
             stages = constant("STAGES", tile.stages), blocks = constant("BLOCKS", tile.blocks);
  switch (tile.kernel) {
    case ForwardKernel::warpgroups:
      return plan.launch(
          "flash_forward_warpgroups.cu", "flash_forward_warpgroups",
          {rows, keys, stages, constant("QUERY_STAGES", tile.query_stages),
           constant("PERSISTENT", tile.persistent), constant("DIRECT", tile.direct)});
    case ForwardKernel::warpgroups_short:
      return plan.launch("flash_forward_warpgroups_short.cu", "flash_forward_warpgroups_short",
                         {keys, blocks});
    case ForwardKernel::portable:
      break;
  }
  return plan.launch("flash_forward.cu", "flash_forward",
                     {rows, keys, constant("WARPS", tile.warps), stages, blocks});
}

bool is_skipping(const FlashPlan& plan, const ForwardTile& tile) {
  return tile.kernel != ForwardKernel::portable && plan.skips();
}

CudaLaunch begin_launch(const FlashForwardParams& params) {
  CudaLaunch launch;
  launch.kernel = {"flash_forward_begin.cu", "flash_forward_begin"};
  launch.threads = 1;
  launch.set_params(params);
  return launch;
}

// `loaded`: queries, keys and values.
CudaLaunch forward_launch(const FlashPlan& plan, const ForwardTile& tile,
                          std::span<const TensorView, 3> loaded, FlashForwardParams params) {
  CudaLaunch launch = kernel_launch(plan, tile);
  const int64_t tiles = divide_up(plan.shape.queries, tile.rows);
  params.query_tiles = static_cast<int>(tiles);
  params.heads_at_once = plan.heads_at_once(tiles, plan.shape.heads);
  launch.grid = plan.grid(tiles, plan.heads);
  if (tile.persistent) launch.grid = {static_cast<uint32_t>(plan.device.multiprocessors), 1, 1};
  launch.threads = static_cast<uint32_t>(32 * tile.warps);
  launch.shared_bytes = static_cast<uint32_t>(tile.shared_bytes(plan.shape));
  plan.put_function(launch, false);
  if (is_skipping(plan, tile)) plan.put_visible_axes(launch);
  plan.put_operands(params);
  launch.set_params(params);
  using Params = FlashForwardParams;
  if (tile.kernel == ForwardKernel::warpgroups)
    launch.boxed = {
        boxed_tensor(loaded[0], offsetof(Params, q_map), offsetof(Params, q), tile.rows),
        boxed_tensor(loaded[1], offsetof(Params, k_map), offsetof(Params, k), tile.keys),
        boxed_tensor(loaded[2], offsetof(Params, v_map), offsetof(Params, v), tile.keys)};
  return launch;
}

struct ForwardScratch {
  FlashPlanes planes;
  VisibleRange* visible_keys;
  unsigned* next_tile;
  Bytes bytes;

  ForwardScratch(void* memory, const FlashShape& shape, const AttentionSpec& spec, const Shape& q,
                 const Shape& k, const CudaFacts& device) {
    ScratchParts scratch(memory);
    visible_keys = scratch.take<VisibleRange>(visible_range_count(spec, q, k, q[2]));
    FlashShape whole = shape;
    whole.queries = q[2];
    whole.keys = k[2];
    whole.heads = q[0] * q[1];
    whole.mask = spec.mask.causal || spec.mask.window > 0 ? 1 : 0;
    whole.function = spec.function != nullptr;
    next_tile = scratch.take<unsigned>(may_draw(whole, device) ? 1 : 0);
    if (shape.planes() > 0)
      for (const Shape& tensor : {q, k, k}) planes.reserve(scratch, shape, tensor);
    bytes = scratch.used();
  }
};

}  // namespace

std::vector<CudaLaunch> plan_attention(const CudaCall& call) {
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  if (spec.cached) return plan_cached_attention(call);
  const TensorView &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2];
  const std::array<TensorView, 4> tensors = {q, k, v, call.outputs[0]};
  const std::span loaded = std::span(tensors).first<3>();
  const FlashPlan plan(call, tensors, loaded.size(), 3);
  if (element_count(q.shape) == 0) return {};
  const ForwardScratch scratch(call.scratch, plan.shape, spec, q.shape, k.shape, call.device);
  const FlashPlanes& planes = scratch.planes;
  const bool split = planes.count > 0;
  const auto source = [&](int i, const TensorView& view) {
    return split ? planes.tensor(i, plan.shape) : flash_tensor(view);
  };
  const FlashForwardParams params = {.q_map = {},
                                     .k_map = {},
                                     .v_map = {},
                                     .q = source(0, q),
                                     .k = source(1, k),
                                     .v = source(2, v),
                                     .out = flash_tensor(call.outputs[0]),
                                     .q_factors = planes.params.factors[0],
                                     .k_factors = planes.params.factors[1],
                                     .v_factors = planes.params.factors[2],
                                     .log_sum_exp = call.outputs[1].as<float>(),
                                     .batches = static_cast<int>(plan.batches),
                                     .heads = static_cast<int>(plan.heads),
                                     .group = static_cast<int>(plan.heads / plan.key_heads),
                                     .queries = static_cast<int>(plan.shape.queries),
                                     .keys = static_cast<int>(plan.shape.keys),
                                     .query_tiles = 0,
                                     .heads_at_once = 1,
                                     .scale = plan.scale,
                                     .scale_log2 = plan.scale_log2(),
                                     .mask_first = plan.mask_first,
                                     .mask_last = plan.mask_last,
                                     .operands = {},
                                     .visible_keys = scratch.visible_keys,
                                     .next_tile = scratch.next_tile};
  const std::vector<ForwardTile> tiles = forward_tiles(plan.shape, call.device);
  const auto candidate = [&](size_t i) {
    std::vector<CudaLaunch> launches;
    if (split) launches.push_back(plan.planes_launch(planes, loaded));
    if (is_skipping(plan, tiles[i]))
      launches.push_back(plan.seen_launch(false, scratch.visible_keys));
    if (tiles[i].draws(plan.shape)) launches.push_back(begin_launch(params));
    launches.push_back(forward_launch(plan, tiles[i], loaded, params));
    return launches;
  };
  return candidate(call.choose(plan.tuning_key("flash_forward"), tiles.size(), candidate));
}

Bytes attention_scratch(const Node& node, std::span<const TensorType> inputs,
                        const CudaFacts& device) {
  const auto& spec = std::get<AttentionSpec>(node.attributes.detail);
  if (spec.cached) return cached_attention_scratch(inputs);
  return ForwardScratch(nullptr, scratch_shape(inputs[0]), spec, inputs[0].shape, inputs[1].shape,
                        device)
      .bytes;
}

}  // namespace ridgeline
