// Plans the gradient of an attention node, in one pass over the keys or in two.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "kernels/cuda/attention/flash_plan.h"
#include "kernels/cuda/kernels.h"

namespace ridgeline {
namespace {

constexpr uint32_t kRowThreads = 256;  // of flash_backward_rows.cu
constexpr int kOperandWarps = static_cast<int>(kScoreTile) / 16;
constexpr uint32_t kDiagonalBytes = 4 * 96 * 4;  // of flash_diagonal_sums.cuh, four halves

int64_t padded_queries(int64_t queries) {
  return divide_up(queries, kMaxQueryTile) * kMaxQueryTile;
}

struct BackwardScratch {
  float *row_shift, *delta, *d_q_sum;
  VisibleRange *visible_keys, *visible_queries;
  FlashPlanes planes;
  Bytes bytes;

  BackwardScratch(void* memory, const FlashShape& shape, const AttentionSpec& spec, const Shape& q,
                  const Shape& k, bool single_pass) {
    ScratchParts scratch(memory);
    const int64_t rows = q[0] * q[1] * padded_queries(q[2]);
    row_shift = scratch.take<float>(rows);
    delta = scratch.take<float>(rows);
    d_q_sum = scratch.take<float>(single_pass ? rows * shape.head_dim() : 0);
    visible_keys = scratch.take<VisibleRange>(visible_range_count(spec, q, k, q[2]));
    visible_queries = scratch.take<VisibleRange>(visible_range_count(spec, q, k, k[2]));
    if (shape.planes() > 0)
      for (const Shape& tensor : {q, k, k, q}) planes.reserve(scratch, shape, tensor);
    bytes = scratch.used();
  }
};

bool is_single_pass(const Node& node) {
  return std::get<AttentionSpec>(node.attributes.detail).backward == BackwardAlgorithm::single_pass;
}

// Whether two passes are faster although one was requested: with a mask, clearing, adding up and
// converting the sums of short sequences costs more than computing products twice. Blocks of whole
// heads neither clear nor convert.
constexpr int64_t kShortMaskedKeys = 1024;
bool prefers_two_passes(const FlashShape& shape, const CudaFacts& device) {
  return shape.mask != 0 && shape.keys < kShortMaskedKeys &&
         backward_queries_tiles(shape, device)[0].kernel == BackwardKernel::warpgroups &&
         !backward_keys_tiles(shape, device, true)[0].whole_heads;
}

// An operand of the score function whose gradient is computed, and the tensor of its sums.
struct OperandResult {
  int operand;
  TensorView sums;
  bool along_diagonals;
};

FlashSums flash_sums(const TensorView& sums) {
  return {sums.as<float>(), element_count(sums.shape)};
}

struct BackwardPlan : FlashPlan {
  FlashBackwardParams params;
  std::array<TensorView, 4> loaded;  // q, k, v, d_out
  bool single_pass;
  std::vector<CudaLaunch> before;  // splits operands into planes
  std::vector<OperandResult> operand_results;

  BackwardPlan(const CudaCall& call, std::span<const TensorView> tensors)
      : FlashPlan(call, tensors, 4, 6),
        loaded{tensors[0], tensors[1], tensors[2], tensors[3]},
        single_pass(is_single_pass(call.node) && !prefers_two_passes(shape, device)) {
    const auto& in = call.inputs;
    const auto& out = call.outputs;
    const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
    const BackwardScratch scratch(call.scratch, shape, spec, in[0].shape, in[1].shape, single_pass);
    const FlashPlanes& planes = scratch.planes;
    const bool split = planes.count > 0;
    const auto source = [&](int i, const TensorView& view) {
      return split ? planes.tensor(i, shape) : flash_tensor(view);
    };
    params = {.q_map = {},
              .k_map = {},
              .v_map = {},
              .d_out_map = {},
              .q = source(0, in[0]),
              .k = source(1, in[1]),
              .v = source(2, in[2]),
              .out = flash_tensor(in[3]),
              .d_out = flash_tensor(in[5]),
              .d_q = flash_tensor(out[0]),
              .d_k = flash_tensor(out[1]),
              .d_v = flash_tensor(out[2]),
              .d_out_planes = source(3, in[5]),
              .q_factors = planes.params.factors[0],
              .k_factors = planes.params.factors[1],
              .v_factors = planes.params.factors[2],
              .d_out_factors = planes.params.factors[3],
              .log_sum_exp = in[4].as<float>(),
              .row_shift = scratch.row_shift,
              .delta = scratch.delta,
              .d_q_sum = scratch.d_q_sum,
              .batches = static_cast<int>(batches),
              .heads = static_cast<int>(heads),
              .key_heads = static_cast<int>(key_heads),
              .group = static_cast<int>(heads / key_heads),
              .queries = static_cast<int>(shape.queries),
              .keys = static_cast<int>(shape.keys),
              .query_tiles = 0,
              .key_tiles = 0,
              .padded_queries = static_cast<int>(padded_queries(shape.queries)),
              .heads_at_once = 1,
              .scale = gradient_scale(),
              .scale_log2 = scale_log2(),
              .mask_first = mask_first,
              .mask_last = mask_last,
              .operands = {},
              .sums = {},
              .visible_keys = scratch.visible_keys,
              .visible_queries = scratch.visible_queries};
    put_operands(params);
    const uint32_t wanted = spec.operand_gradients;
    for (int i = 0; i < static_cast<int>(operands.size()); ++i)
      if ((wanted >> i & 1) != 0)
        operand_results.push_back(
            {i, out[3 + operand_results.size()], (spec.diagonal_gradients >> i & 1) != 0});
    if (split) before.push_back(planes_launch(planes, loaded));
  }

  // Whether the kernel with this tile computes the gradient of an operand as well
  // (flash_operand_sums.cuh, flash_diagonal_sums.cuh). It adds by atomics, and has neither the
  // scores nor room for a matrix of all scores.
  bool adds_up(const BackwardKeysTile& tile, const OperandResult& result) const {
    const Shape& own = operands[static_cast<size_t>(result.operand)].shape;
    if (!single_pass || tile.kernel != BackwardKernel::warpgroups ||
        !constant_score_gradient(*function))
      return false;
    if (result.along_diagonals)
      return constant_operand_gradient(*function, result.operand).has_value();
    return !operand_gradient_reads_score(*function, result.operand) && (own[2] == 1 || own[3] == 1);
  }

  // Adds the operand gradients that the kernel computes, and the sums along diagonals to which
  // another kernel adds. Returns the number of sums that must be cleared before.
  int put_operand_sums(const BackwardKeysTile& tile, CudaLaunch& launch,
                       FlashBackwardParams& filled) const {
    int count = 0;
    const auto put = [&](bool along_diagonals, const char* gradients_name, const char* axes_name) {
      std::string gradients, axes;
      for (const OperandResult& result : operand_results) {
        if (result.along_diagonals != along_diagonals || !adds_up(tile, result)) continue;
        const char* comma = axes.empty() ? "" : ", ";
        gradients += fmt::format("{}[&]() -> float {{ {} }}()", comma,
                                 operand_gradient_text(*function, operands, result.operand));
        axes += comma + operand_axes_text(operands[static_cast<size_t>(result.operand)]);
        filled.sums[count++] = flash_sums(result.sums);
      }
      if (axes.empty()) return false;
      launch.kernel.constants.emplace_back(gradients_name, gradients);
      launch.kernel.constants.emplace_back(axes_name, axes);
      return true;
    };
    put(false, "OPERAND_GRADIENTS", "OPERAND_AXES");
    if (put(true, "DIAGONAL_GRADIENTS", "DIAGONAL_AXES")) launch.shared_bytes += kDiagonalBytes;
    for (const OperandResult& result : operand_results)
      if (result.along_diagonals && !adds_up(tile, result))
        filled.sums[count++] = flash_sums(result.sums);
    return count;
  }

  // The kernels before and after the tiles (flash_backward_rows.cu).
  CudaLaunch rows_launch(const char* entry, const BackwardKeysTile& tile, int64_t threads, int sums,
                         FlashBackwardParams filled) const {
    CudaLaunch result =
        launch("flash_backward_rows.cu", entry,
               {constant("QUERIES", tile.queries),
                constant("CLEARS", single_pass && !tile.whole_heads), constant("SUMS", sums)});
    filled.query_tiles = static_cast<int>(divide_up(shape.queries, tile.queries));
    result.grid[0] = grid_size(divide_up(threads, kRowThreads));
    result.threads = kRowThreads;
    result.set_params(filled);
    return result;
  }

  CudaLaunch keys_kernel(const BackwardKeysTile& tile) const {
    const auto stages = constant("STAGES", tile.stages),
               passes = constant("SINGLE_PASS", single_pass),
               whole = constant("WHOLE_HEADS", tile.whole_heads);
    switch (tile.kernel) {
      case BackwardKernel::warpgroups:
        return launch("flash_backward_warpgroups.cu", "flash_backward_warpgroups",
                      {stages, passes, whole});
      case BackwardKernel::warpgroups_wide:
        return launch("flash_backward_warpgroups_wide.cu", "flash_backward_warpgroups_wide",
                      {stages, passes, whole});
      case BackwardKernel::portable:
        break;
    }
    return launch("flash_backward_keys.cu", "flash_backward_keys",
                  {constant("QUERIES", tile.queries), constant("KEYS", tile.keys),
                   constant("WARPS", tile.warps), stages, constant("SPLIT", tile.split), passes,
                   constant("BLOCKS", tile.blocks)});
  }

  // The tensors that the warpgroup kernels copy by TMA, in tiles of that many rows.
  std::vector<BoxedTensor> boxed(int query_rows, int key_rows) const {
    using Params = FlashBackwardParams;
    return {
        boxed_tensor(loaded[0], offsetof(Params, q_map), offsetof(Params, q), query_rows),
        boxed_tensor(loaded[1], offsetof(Params, k_map), offsetof(Params, k), key_rows),
        boxed_tensor(loaded[2], offsetof(Params, v_map), offsetof(Params, v), key_rows),
        boxed_tensor(loaded[3], offsetof(Params, d_out_map), offsetof(Params, d_out), query_rows)};
  }

  std::vector<CudaLaunch> keys_launches(const BackwardKeysTile& tile) const {
    CudaLaunch main = keys_kernel(tile);
    const int64_t tiles = divide_up(shape.keys, tile.keys);
    const int64_t query_tiles = divide_up(shape.queries, tile.queries);
    FlashBackwardParams filled = params;
    filled.query_tiles = static_cast<int>(query_tiles);
    filled.key_tiles = static_cast<int>(tiles);
    filled.heads_at_once = heads_at_once(tiles, shape.key_heads);
    main.grid = grid(tiles, key_heads);
    if (tile.whole_heads)
      main.grid = {grid_size(std::min<int64_t>(shape.key_heads, device.multiprocessors)), 1, 1};
    main.threads = static_cast<uint32_t>(32 * tile.warps);
    main.shared_bytes = static_cast<uint32_t>(tile.shared_bytes(shape, single_pass));
    put_function(main, true);
    const int sums = put_operand_sums(tile, main, filled);
    main.set_params(filled);
    if (tile.kernel != BackwardKernel::portable) main.boxed = boxed(tile.queries, tile.keys);

    // As many lanes share a row as it has chunks of 16 bytes, rounded up to a power of two.
    const int64_t lanes = std::min<int64_t>(
        32, next_power_of_two(divide_up(shape.width * info(shape.dtype).size, 16)));
    std::vector<CudaLaunch> launches = before;
    if (tile.kernel != BackwardKernel::portable && skips()) {
      launches.push_back(seen_launch(true, params.visible_queries));
      put_visible_axes(main);
    }
    launches.push_back(rows_launch("flash_backward_begin", tile,
                                   shape.heads * params.padded_queries * lanes, sums, filled));
    launches.push_back(main);
    if (single_pass && !tile.whole_heads)
      launches.push_back(
          rows_launch("flash_backward_end", tile,
                      shape.heads * query_tiles * tile.queries * shape.head_dim() / 16, 0, filled));
    return launches;
  }

  CudaLaunch queries_kernel(const BackwardQueriesTile& tile) const {
    const auto queries = constant("QUERIES", tile.queries), keys = constant("KEYS", tile.keys),
               stages = constant("STAGES", tile.stages);
    if (tile.kernel == BackwardKernel::warpgroups)
      return launch("flash_backward_queries_warpgroups.cu", "flash_backward_queries_warpgroups",
                    {queries, keys, stages});
    return launch(
        "flash_backward_queries.cu", "flash_backward_queries",
        {queries, keys, constant("WARPS", tile.warps), stages, constant("BLOCKS", tile.blocks)});
  }

  std::vector<CudaLaunch> queries_launches(const BackwardQueriesTile& tile) const {
    CudaLaunch main = queries_kernel(tile);
    const int64_t tiles = divide_up(shape.queries, tile.queries);
    FlashBackwardParams filled = params;
    filled.query_tiles = static_cast<int>(tiles);
    filled.heads_at_once = heads_at_once(tiles, shape.heads);
    main.grid = grid(tiles, heads);
    main.threads = static_cast<uint32_t>(32 * tile.warps);
    main.shared_bytes = static_cast<uint32_t>(tile.shared_bytes(shape));
    put_function(main, true);
    main.set_params(filled);
    if (tile.kernel == BackwardKernel::portable) return {main};
    main.boxed = boxed(tile.queries, tile.keys);
    if (!skips()) return {main};
    put_visible_axes(main);
    return {seen_launch(false, params.visible_keys), main};
  }

  CudaLaunch operand_launch(const OperandResult& wanted) const {
    const auto& [operand, sums, along_diagonals] = wanted;
    const Shape& own = operands[static_cast<size_t>(operand)].shape;
    CudaLaunch result =
        launch("flash_backward_operands.cu", "flash_backward_operands",
               {constant("TILE", static_cast<int>(kScoreTile)), constant("WARPS", kOperandWarps),
                constant("BATCHES", own[0] > 1), constant("HEADS", own[1] > 1),
                constant("QUERIES", own[2] > 1), constant("KEYS", own[3] > 1),
                constant("DIAGONALS", along_diagonals)});
    auto& constants = result.kernel.constants;
    constants.emplace_back("SCORE_VALUE", score_value_text(*function, operands));
    constants.emplace_back("SCORE_GRADIENT", operand_gradient_text(*function, operands, operand));
    FlashBackwardParams filled = params;
    filled.query_tiles = static_cast<int>(divide_up(shape.queries, kScoreTile));
    filled.key_tiles = static_cast<int>(divide_up(shape.keys, kScoreTile));
    filled.sums[0] = flash_sums(sums);
    const int64_t query_tiles = filled.query_tiles, key_tiles = filled.key_tiles;
    result.grid[0] =
        grid_size((along_diagonals ? query_tiles + key_tiles - 1 : query_tiles * key_tiles) *
                  own[0] * own[1]);
    result.threads = 32 * kOperandWarps;
    const int64_t rows = 2 * kScoreTile * shape.row_bytes();
    const int64_t exchange = kScoreTile * (kScoreTile + 1) * int64_t{sizeof(float)};
    result.shared_bytes = static_cast<uint32_t>(std::max(rows, exchange));
    result.set_params(filled);
    return result;
  }
};

}  // namespace

std::vector<CudaLaunch> plan_attention_gradient(const CudaCall& call) {
  const auto& in = call.inputs;
  const std::array<TensorView, 8> tensors = {
      in[0], in[1], in[2], in[5], in[3], call.outputs[0], call.outputs[1], call.outputs[2]};
  const BackwardPlan plan(call, tensors);
  if (element_count(in[0].shape) == 0 || element_count(in[1].shape) == 0) return {};
  const std::vector<BackwardKeysTile> tiles =
      backward_keys_tiles(plan.shape, call.device, plan.single_pass);
  const auto candidate = [&](size_t i) { return plan.keys_launches(tiles[i]); };
  const char* kernel = plan.single_pass ? "flash_backward" : "flash_backward_keys";
  const size_t chosen = call.choose(plan.tuning_key(kernel), tiles.size(), candidate);
  std::vector<CudaLaunch> launches = candidate(chosen);
  if (!plan.single_pass) {
    const std::vector<BackwardQueriesTile> query_tiles =
        backward_queries_tiles(plan.shape, call.device);
    const auto second = [&](size_t i) { return plan.queries_launches(query_tiles[i]); };
    const size_t best =
        call.choose(plan.tuning_key("flash_backward_queries"), query_tiles.size(), second);
    std::ranges::copy(second(best), std::back_inserter(launches));
  }
  for (const OperandResult& result : plan.operand_results)
    if (!plan.adds_up(tiles[chosen], result)) launches.push_back(plan.operand_launch(result));
  return launches;
}

Bytes attention_gradient_scratch(const Node& node, std::span<const TensorType> inputs,
                                 const CudaFacts&) {
  return BackwardScratch(nullptr, scratch_shape(inputs[0]),
                         std::get<AttentionSpec>(node.attributes.detail), inputs[0].shape,
                         inputs[1].shape, is_single_pass(node))
      .bytes;
}

}  // namespace ridgeline
