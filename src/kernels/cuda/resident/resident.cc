#include "kernels/cuda/resident/resident.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codegen/emit.h"
#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

// As in resident.cuh and resident_kernel.cuh.
constexpr int64_t kTileRows = 16, kHeadTiles = 8;
constexpr int64_t kSideSlots[] = {4, 2};  // the more, the earlier vectors are loaded
constexpr int64_t kRowPadding = 16, kCacheRows = 32, kMostSplits = 16;
constexpr int64_t kMostColumns = 640;  // of a chunk of weights
constexpr int64_t kLeastStages = 5,
                  kMostStages = 24;                   // of the ring: a unit of the cache takes four
constexpr int64_t kMostBlocks = 32 * kResidentWarps;  // each has a thread in find_largest()
constexpr int64_t kAttentionScratch = 2 * 2 * 8 * (64 + 4) * 4;

struct Sizes {
  int64_t stage = 0, partials = kResidentWarps, fixed = 0;
};

static_assert(kMostResidentSides == kResidentSides && kMostResidentStores == kResidentTargets &&
              kMostResidentOperands == std::size(ResidentItem{}.at));

// The widest chunk of a row that fits, a multiple of the depth of one mma.
int64_t chunk_of(const ResidentStep& step) {
  for (int64_t chunk = std::min(step.depth, kMostColumns) / 16 * 16; chunk > 0; chunk -= 16)
    if (step.depth % chunk == 0) return chunk;
  return 0;
}
int64_t chunks_of(const ResidentStep& step) {
  return step.depth / chunk_of(step);
}

// Words that blocks exchange, of two numbers each; for attention those of each head and split, and
// their log-sum-exp twice.
int64_t words_of(const ResidentStep& step, const ResidentPlan& resident, int64_t blocks) {
  if (step.kind == ResidentStep::Kind::attention)
    return kMostSplits * resident.key_heads * resident.group * (resident.head_dim / 2 + 2);
  if (step.kind != ResidentStep::Kind::product) return 0;
  if (step.is_last) return 2 * blocks;
  return (step.pair ? step.rows / 2 : step.rows) / 2;
}

// Stages of a product in the block that has the most rows.
int64_t most_stages(const ResidentStep& step, int64_t blocks) {
  const int64_t rows = step.pair ? step.rows / 2 : step.rows;
  const int64_t mine = 2 * divide_up(rows / 2, blocks);
  return divide_up(mine, step.pair ? kTileRows / 2 : kTileRows) * chunks_of(step);
}

Sizes sizes_of(const ResidentPlan& resident, int64_t blocks, int64_t side_slots) {
  Sizes sizes;
  if (resident.head_dim > 0)
    sizes.stage = std::max(sizes.stage, kCacheRows * (resident.head_dim * 2 + kRowPadding));
  for (const ResidentStep& step : resident.steps)
    if (step.kind == ResidentStep::Kind::product) {
      sizes.stage = std::max(sizes.stage, kTileRows * (chunk_of(step) * 2 + kRowPadding));
      sizes.partials = std::max(
          sizes.partials, step.is_last ? kHeadTiles * chunks_of(step) : most_stages(step, blocks));
    }
  const int64_t items = static_cast<int64_t>(resident.steps.size()) * sizeof(ResidentItem);
  sizes.fixed = resident.value_bytes + side_slots * std::max<int64_t>(resident.side_bytes, 16) +
                items + 2 * sizes.partials * kTileRows * 4 + kAttentionScratch + 2048;
  return sizes;
}

ResidentItem item_of(const ResidentPlan& resident, const ResidentStep& step, int number,
                     const std::function<void*(Value)>& address) {
  using Kind = ResidentStep::Kind;
  ResidentItem item{};
  const auto at = [](void* data, int64_t elements) {
    return static_cast<char*>(data) + elements * 2;
  };
  for (size_t i = 0; i < step.at.size(); ++i) item.at[i] = static_cast<int>(step.at[i]);
  switch (step.kind) {
    case Kind::gather:
      item.kind = kResidentGather;
      item.weights = at(address(step.weights), step.weights_offset);
      item.values = address(step.index);
      item.depth = static_cast<int>(step.depth);
      item.slots = !resident.repeats                  ? kIndexInMemory
                   : step.index == *resident.position ? kIndexIsPosition
                                                      : kIndexIsToken;
      break;
    case Kind::local:
      item.kind = kResidentLocal + number;
      item.sides = static_cast<int>(step.sides.size());
      item.side_bytes = static_cast<int>(step.side_bytes);
      break;
    case Kind::product:
      item.kind = step.is_last ? kResidentHead : step.pair ? kResidentPairs : kResidentProduct;
      item.weights = at(address(step.weights), step.weights_offset);
      item.all_rows = static_cast<int>(step.pair ? step.rows / 2 : step.rows);
      item.depth = static_cast<int>(step.depth);
      item.steps = static_cast<int>(chunk_of(step) / 16);
      item.chunks = static_cast<int>(chunks_of(step));
      if (step.pair) item.at[2] = number;
      break;
    case Kind::attention:
      item.kind = kResidentAttention;
      item.weights = address(step.keys);
      item.values = address(step.values);
      item.slots = static_cast<int>(step.slots);
      item.window = static_cast<int>(step.window);
      break;
  }
  return item;
}

}  // namespace

std::optional<CudaResident> plan_resident(const Graph& graph, const Plan& plan,
                                          const ResidentPlan& resident, const CudaFacts& facts,
                                          const std::function<void*(Value)>& address,
                                          std::string& why) {
  if (facts.compute_capability < 90 || facts.compute_capability >= 100) {
    why = "it needs a Hopper GPU";
    return std::nullopt;
  }
  const int64_t blocks = facts.multiprocessors;
  Sizes sizes;
  int64_t stages = 0, side_slots = 0;
  for (size_t i = 0; i < std::size(kSideSlots) && stages < kLeastStages; ++i) {
    side_slots = kSideSlots[i];
    sizes = sizes_of(resident, blocks, side_slots);
    stages = std::min(kMostStages, (facts.shared_bytes_per_block - sizes.fixed) / sizes.stage);
  }
  if (blocks > kMostBlocks) {
    why = fmt::format("it supports up to {} multiprocessors, and the GPU has {}", kMostBlocks,
                      blocks);
    return std::nullopt;
  }
  if (stages < kLeastStages) {
    why = fmt::format("shared memory of {} leaves {} stages for weights",
                      to_string(Bytes{facts.shared_bytes_per_block}), std::max<int64_t>(stages, 0));
    return std::nullopt;
  }
  const ResidentText text = emit_resident(plan, resident);
  CudaResident result;
  for (size_t i = 0; i < resident.steps.size(); ++i) {
    const ResidentStep& step = resident.steps[i];
    ResidentItem item = item_of(resident, step, text.numbers[i], address);
    item.words = static_cast<int>(result.words);
    result.words += divide_up(words_of(step, resident, blocks), 2) * 2;
    result.items.push_back(item);
    for (size_t side = 0; side < kResidentSides; ++side) {
      ResidentVector vector{};
      if (side < step.sides.size())
        vector = {address(step.sides[side]),
                  static_cast<int>(byte_size(graph.type(step.sides[side])).count),
                  static_cast<int>(step.side_offsets[side])};
      result.vectors.push_back(vector);
    }
  }
  const auto number = [](int64_t value) { return std::to_string(value); };
  result.launch.kernel = {
      .file = {},
      .entry = text.entry,
      .constants = {{"BLOCKS", number(blocks)},
                    {"STAGES", number(stages)},
                    {"STAGE_BYTES", number(sizes.stage)},
                    {"SIDE_SLOTS", number(side_slots)},
                    {"SIDE_BYTES", number(std::max<int64_t>(resident.side_bytes, 16))},
                    {"VALUE_BYTES", number(resident.value_bytes)},
                    {"WARPS", number(kResidentWarps)},
                    {"ITEMS", number(static_cast<int64_t>(result.items.size()))},
                    {"PARTIALS", number(sizes.partials)},
                    {"HEAD_DIM", number(resident.head_dim)},
                    {"GROUP", number(resident.group)},
                    {"KEY_HEADS", number(resident.key_heads)},
                    {"SCALE", fmt::format("{:a}f", resident.scale)}},
      .text = text.text};
  result.launch.grid = {static_cast<uint32_t>(blocks), 1, 1};
  result.launch.starts_early =
      false;  // it loads weights before it waits, and earlier kernels may write them
  result.launch.threads = static_cast<uint32_t>(32 * (kResidentWarps + 1));
  result.launch.shared_bytes = static_cast<uint32_t>(sizes.fixed + stages * sizes.stage);
  return result;
}

}  // namespace ridgeline
