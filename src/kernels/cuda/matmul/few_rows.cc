#include "kernels/cuda/matmul/few_rows.h"

#include <limits>

#include "kernels/cuda/planning.h"

namespace ridgeline {
namespace {

// As in few_rows.cu.
constexpr int64_t kRowsOfABlock = 32, kTile = 8, kColumnsOfAStep = 32;
constexpr int64_t kMostTiles = 4, kMostGroups = 2;  // tiles of x per block, blocks along x
constexpr uint32_t kThreads = 256;
constexpr int64_t kLeastBlocks = 64, kMostBlocks = 640;  // for which a split is worth trying
constexpr int64_t kSplits[] = {1, 2, 3, 4, 6, 8};
constexpr int64_t kAccess = 16;  // bytes

bool is_aligned(const void* data, int64_t stride) {
  return reinterpret_cast<uintptr_t>(data) % kAccess == 0 && stride * 2 % kAccess == 0;
}

bool serves(const FewRowsProduct& p, const CudaFacts& device) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return device.compute_capability >= 90 && (p.dtype == DType::bf16 || p.dtype == DType::f16) &&
         p.tokens >= 1 && p.tokens <= kMostGroups * kMostTiles * kTile && p.rows >= 1 &&
         p.rows <= kMost / 8 && p.columns >= kColumnsOfAStep && p.columns % kColumnsOfAStep == 0 &&
         p.columns <= kMost && is_aligned(p.x, p.x_stride) && is_aligned(p.w, p.w_stride);
}

}  // namespace

FewRowsParams few_rows_params(const FewRowsProduct& p) {
  return {.x = p.x,
          .w = p.w,
          .out = p.out,
          .x_stride = p.x_stride,
          .w_stride = p.w_stride,
          .out_stride = p.out_stride,
          .tokens = static_cast<int>(p.tokens),
          .rows = static_cast<int>(p.rows),
          .columns = static_cast<int>(p.columns)};
}

namespace {

CudaLaunch launch_of(const FewRowsProduct& p, int64_t blocks, int64_t splits) {
  const int64_t groups = divide_up(p.tokens, kMostTiles * kTile);
  CudaLaunch launch{
      .kernel = {.file = "few_rows.cu",
                 .entry = "few_rows",
                 .constants = {{"TYPE", element_name(p.dtype)}}},
      .grid = {static_cast<uint32_t>(blocks * splits), static_cast<uint32_t>(groups), 1},
      .threads = kThreads};
  launch.kernel.constants.emplace_back("MMA_TYPE", p.dtype == DType::bf16 ? "\"bf16\"" : "\"f16\"");
  for (const auto& [name, value] : {std::pair{"TILES", divide_up(p.tokens, groups * kTile)},
                                    {"SPLITS", splits},
                                    {"KEPT", int64_t{p.weights_are_kept}}})
    launch.kernel.constants.emplace_back(name, std::to_string(value));
  launch.set_params(few_rows_params(p));
  return launch;
}

}  // namespace

std::vector<CudaLaunch> plan_few_rows(const FewRowsProduct& p, const CudaFacts& device) {
  if (!serves(p, device)) return {};
  const int64_t blocks = divide_up(p.rows, kRowsOfABlock);
  std::vector<CudaLaunch> ways;
  for (const int64_t splits : kSplits) {
    const bool is_worth_it = blocks * splits >= kLeastBlocks && blocks * splits <= kMostBlocks;
    if (!is_worth_it && !(splits == 1 && blocks > kMostBlocks)) continue;
    ways.push_back(launch_of(p, blocks, splits));
  }
  return ways;
}

}  // namespace ridgeline
