#include "kernels/cuda/attention/flash_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "kernels/cuts.h"

namespace ridgeline {
namespace {

// The columns of the panels (warpgroup.cuh) that a head takes.
constexpr int kPanelColumns = 64;
int64_t panel_width(const FlashShape& shape) {
  return divide_up(shape.head_dim(), kPanelColumns) * kPanelColumns;
}

constexpr int kBarrierBytes = 16;  // two mbarriers for each stage of a TileRing

// The bytes of an element in shared memory.
int64_t element_bytes(const FlashShape& shape) {
  return shape.planes() == 2 ? 4 : 2;
}

// Candidates for heads up to `width`, in the order of the measurements in docs/performance.md. None
// of them spills registers in its loop: tests/jit compiles them all.
template <class Tile>
struct TileRow {
  int planes;
  int width;
  std::vector<Tile> tiles;
};

const std::vector<TileRow<ForwardTile>>& forward_table() {
  static const std::vector<TileRow<ForwardTile>> table = {
      {.planes = 0,
       .width = 64,
       .tiles = {{.rows = 128, .keys = 128, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 128, .keys = 96, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 128, .keys = 64, .warps = 8, .stages = 1, .blocks = 2},
                 {.rows = 64, .keys = 64, .warps = 4, .stages = 1, .blocks = 4},
                 {.rows = 32, .keys = 64, .warps = 2, .stages = 1, .blocks = 4}}},
      {.planes = 0,
       .width = 128,
       .tiles = {{.rows = 128, .keys = 64, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 128, .keys = 48, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 64, .keys = 64, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 2}}},
      {.planes = 0,
       .width = 256,
       .tiles = {{.rows = 64, .keys = 64, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 64, .keys = 48, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 128, .keys = 64, .warps = 8, .stages = 1, .blocks = 1},
                 {.rows = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 1}}},
      {.planes = 1,
       .width = 64,
       .tiles = {{.rows = 128, .keys = 64, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 64, .keys = 64, .warps = 4, .stages = 1, .blocks = 2}}},
      {.planes = 1,
       .width = 128,
       .tiles = {{.rows = 64, .keys = 64, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 2}}},
      {.planes = 1,
       .width = 256,
       .tiles = {{.rows = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 1},
                 {.rows = 64, .keys = 16, .warps = 4, .stages = 1, .blocks = 1}}},
      {.planes = 2,
       .width = 64,
       .tiles = {{.rows = 128, .keys = 32, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 64, .keys = 64, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 2}}},
      {.planes = 2,
       .width = 128,
       .tiles = {{.rows = 128, .keys = 16, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 2},
                 {.rows = 64, .keys = 16, .warps = 4, .stages = 1, .blocks = 1}}},
      {.planes = 2,
       .width = 256,
       .tiles = {{.rows = 64, .keys = 16, .warps = 4, .stages = 1, .blocks = 1},
                 {.rows = 32, .keys = 16, .warps = 2, .stages = 1, .blocks = 1}}},
  };
  return table;
}

const std::vector<TileRow<BackwardKeysTile>>& backward_keys_table() {
  static const std::vector<TileRow<BackwardKeysTile>> table = {
      {.planes = 0,
       .width = 64,
       .tiles = {{.queries = 32, .keys = 128, .warps = 4, .stages = 1, .split = 1, .blocks = 2},
                 {.queries = 64, .keys = 64, .warps = 4, .stages = 1, .split = 1, .blocks = 2},
                 {.queries = 64, .keys = 128, .warps = 8, .stages = 1, .split = 1, .blocks = 1}}},
      {.planes = 0,
       .width = 128,
       .tiles = {{.queries = 64, .keys = 128, .warps = 8, .stages = 2, .split = 2, .blocks = 1},
                 {.queries = 64, .keys = 128, .warps = 8, .stages = 1, .split = 2, .blocks = 1},
                 {.queries = 64, .keys = 64, .warps = 4, .stages = 1, .split = 1, .blocks = 1},
                 {.queries = 32, .keys = 64, .warps = 4, .stages = 1, .split = 1, .blocks = 1}}},
      {.planes = 0,
       .width = 256,
       .tiles = {{.queries = 64, .keys = 64, .warps = 8, .stages = 2, .split = 4, .blocks = 1},
                 {.queries = 64, .keys = 64, .warps = 8, .stages = 1, .split = 4, .blocks = 1},
                 {.queries = 64, .keys = 64, .warps = 8, .stages = 1, .split = 2, .blocks = 1},
                 {.queries = 32, .keys = 32, .warps = 4, .stages = 1, .split = 2, .blocks = 1}}},
      {.planes = 1,
       .width = 64,
       .tiles = {{.queries = 32, .keys = 64, .warps = 4, .stages = 1, .split = 1, .blocks = 2},
                 {.queries = 32, .keys = 64, .warps = 4, .stages = 2, .split = 1, .blocks = 2}}},
      {.planes = 1,
       .width = 128,
       .tiles = {{.queries = 32, .keys = 64, .warps = 8, .stages = 1, .split = 2, .blocks = 1},
                 {.queries = 16, .keys = 64, .warps = 4, .stages = 1, .split = 1, .blocks = 1}}},
      {.planes = 1,
       .width = 256,
       .tiles = {{.queries = 32, .keys = 32, .warps = 8, .stages = 1, .split = 4, .blocks = 1},
                 {.queries = 16, .keys = 32, .warps = 4, .stages = 1, .split = 2, .blocks = 1}}},
      {.planes = 2,
       .width = 64,
       .tiles = {{.queries = 32, .keys = 64, .warps = 4, .stages = 1, .split = 1, .blocks = 2},
                 {.queries = 32, .keys = 64, .warps = 4, .stages = 1, .split = 2, .blocks = 2}}},
      {.planes = 2,
       .width = 128,
       .tiles = {{.queries = 16, .keys = 64, .warps = 4, .stages = 1, .split = 1, .blocks = 1},
                 {.queries = 32, .keys = 64, .warps = 8, .stages = 1, .split = 2, .blocks = 1},
                 {.queries = 16, .keys = 32, .warps = 2, .stages = 1, .split = 1, .blocks = 1}}},
      {.planes = 2,
       .width = 256,
       .tiles = {{.queries = 64, .keys = 32, .warps = 8, .stages = 1, .split = 4, .blocks = 1},
                 {.queries = 16, .keys = 16, .warps = 2, .stages = 1, .split = 2, .blocks = 1}}},
  };
  return table;
}

const std::vector<TileRow<BackwardQueriesTile>>& backward_queries_table() {
  static const std::vector<TileRow<BackwardQueriesTile>> table = {
      {.planes = 0,
       .width = 64,
       .tiles = {{.queries = 128, .keys = 64, .warps = 4, .stages = 2, .blocks = 2},
                 {.queries = 64, .keys = 64, .warps = 4, .stages = 1, .blocks = 2}}},
      {.planes = 0,
       .width = 128,
       .tiles = {{.queries = 128, .keys = 64, .warps = 8, .stages = 2, .blocks = 1},
                 {.queries = 64, .keys = 64, .warps = 4, .stages = 1, .blocks = 2},
                 {.queries = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 1}}},
      {.planes = 0,
       .width = 256,
       .tiles = {{.queries = 64, .keys = 32, .warps = 4, .stages = 2, .blocks = 1},
                 {.queries = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 1},
                 {.queries = 32, .keys = 16, .warps = 2, .stages = 1, .blocks = 1}}},
      {.planes = 1,
       .width = 64,
       .tiles = {{.queries = 64, .keys = 32, .warps = 4, .stages = 2, .blocks = 2},
                 {.queries = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 2}}},
      {.planes = 1,
       .width = 128,
       .tiles = {{.queries = 64, .keys = 32, .warps = 4, .stages = 2, .blocks = 1},
                 {.queries = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 1}}},
      {.planes = 1,
       .width = 256,
       .tiles = {{.queries = 64, .keys = 16, .warps = 4, .stages = 1, .blocks = 1},
                 {.queries = 32, .keys = 16, .warps = 2, .stages = 1, .blocks = 1}}},
      {.planes = 2,
       .width = 64,
       .tiles = {{.queries = 64, .keys = 32, .warps = 4, .stages = 2, .blocks = 2},
                 {.queries = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 2}}},
      {.planes = 2,
       .width = 128,
       .tiles = {{.queries = 64, .keys = 32, .warps = 4, .stages = 1, .blocks = 1},
                 {.queries = 32, .keys = 16, .warps = 2, .stages = 1, .blocks = 1}}},
      {.planes = 2,
       .width = 256,
       .tiles = {{.queries = 32, .keys = 16, .warps = 2, .stages = 2, .blocks = 1},
                 {.queries = 32, .keys = 16, .warps = 2, .stages = 1, .blocks = 1}}},
  };
  return table;
}

// The warpgroup kernels take 16-bit elements in aligned rows that TMA can copy. Heads of 17 to 48
// columns leave part of a panel unused, and are still 1.1 to 1.6 times as fast as portable kernels.
bool serves_warpgroups(const FlashShape& shape, const CudaFacts& device) {
  constexpr int64_t kSharedBytes = 227 << 10;  // of every Hopper GPU; the tiles rely on it
  constexpr int kLeastWidth = 32;
  return device.compute_capability == 90 && device.shared_bytes_per_block >= kSharedBytes &&
         shape.planes() == 0 && shape.aligned && shape.boxed && shape.head_dim() >= kLeastWidth &&
         shape.width <= kMaxFlashWidth;
}

// With heads of 64, large tiles leave much idle at both ends of a tile, and with a mask along the
// diagonal; from these lengths on they pay off.
constexpr int64_t kLongKeys = 1024, kLongPersistentKeys = 1408, kLongMaskedKeys = 2048;

int64_t tile_count(const FlashShape& shape, int rows) {
  return divide_up(shape.queries, rows) * shape.heads;
}

// Whether pieces of work divide evenly among the multiprocessors: at most 10 % of their turns are
// idle.
bool divide_evenly(int64_t pieces, const CudaFacts& device) {
  const int64_t places = divide_up(pieces, device.multiprocessors) * device.multiprocessors;
  return 10 * pieces >= 9 * places;
}

// Whether blocks are persistent: they process one tile after the other, and load the next one
// ahead. With a mask they draw tiles from a counter, which pays off from the third tile on; scratch
// is sized before any multiprocessors are left to collectives, so these count. Without a mask each
// takes its share, which must be even; long tiles of heads of 80 to 128 are better scheduled by the
// hardware.
bool blocks_persist(const FlashShape& shape, const CudaFacts& device, int rows) {
  const int width = shape.head_dim();
  if (width > 128 && (width <= 192 || shape.function)) return false;
  if (shape.mask != 0) {
    constexpr int64_t kShortWide = 1024;
    const int64_t all = device.multiprocessors + device.reserved_multiprocessors;
    return tile_count(shape, rows) > 2 * all && (width <= 128 || shape.keys <= kShortWide);
  }
  constexpr int64_t kTooLong = 8192;
  const bool is_medium = width > 64 && width <= 128;
  return divide_evenly(tile_count(shape, rows), device) && !(is_medium && shape.keys >= kTooLong);
}

std::vector<ForwardTile> forward_warpgroup_tiles(const FlashShape& shape, const CudaFacts& device) {
  const int width = shape.head_dim();
  const bool gains_directly = width > 64 ? width > 96 : shape.mask != 0;
  const auto large = [&](int rows, int keys, int stages) {
    const bool persistent = blocks_persist(shape, device, rows);
    return ForwardTile{.rows = rows,
                       .keys = keys,
                       .warps = rows / 16 + 4,
                       .stages = stages,
                       .blocks = 1,
                       .kernel = ForwardKernel::warpgroups,
                       .query_stages = persistent && width <= 128 ? 2 : 1,
                       .persistent = persistent,
                       .direct = persistent && gains_directly};
  };
  const auto small = [](int blocks) {
    return ForwardTile{.rows = 64,
                       .keys = 64,
                       .warps = 4,
                       .stages = 2,
                       .blocks = blocks,
                       .kernel = ForwardKernel::warpgroups_short};
  };
  if (width > 128 && shape.function) return {large(128, 64, 2)};
  if (width > 192) return {large(128, 80, 2)};
  if (width > 128) return {large(128, 96, 2)};
  if (width > 64) return {large(128, 128, 2), small(2)};
  if (shape.function) return {small(2)};  // it needs registers
  const ForwardTile tall = large(192, 128, shape.mask != 0 ? 2 : 3);
  const int64_t long_keys = shape.mask == 0   ? kLongKeys
                            : tall.persistent ? kLongPersistentKeys
                                              : kLongMaskedKeys;
  if (shape.keys >= long_keys) return {tall, small(4)};
  return {small(4), tall};
}

// For short sequences without a mask, where the ends of tiles take a large part of the time:
// persistent blocks that store results from registers, and steps of keys that fit the length. On an
// H200 the speedup over the tiles above is 1.75 for 110 keys and heads of 96, 1.25 for 157 of 104,
// 1.25 for 257 of 128, and 1.43 for 145 of 160. Wider heads have such a tile at every length.
std::optional<ForwardTile> forward_short_tile(const FlashShape& shape, const CudaFacts& device) {
  constexpr int kRows = 128;
  constexpr int64_t kLongest = 512;
  const int width = shape.head_dim();
  if (width <= 64 || width > 192 || shape.function || shape.mask != 0 ||
      shape.queries <= kRows / 2 || shape.keys > kLongest ||
      !divide_evenly(tile_count(shape, kRows), device))
    return std::nullopt;
  const int64_t steps = divide_up(shape.keys, width > 128 ? 80 : 128);
  return ForwardTile{.rows = kRows,
                     .keys = static_cast<int>(divide_up(divide_up(shape.keys, steps), 16) * 16),
                     .warps = kRows / 16 + 4,
                     .stages = 2,
                     .blocks = 1,
                     .kernel = ForwardKernel::warpgroups,
                     .query_stages = 2,
                     .persistent = true,
                     .direct = true};
}

// Whether blocks of the backward process whole heads. Heads must then divide evenly among the
// multiprocessors, and what the blocks read and add to again and again, queries, output gradients
// and the sums of dQ, must fit the L2 cache; with a mask it is half as much on average. One tile of
// keys has no sums. On an H200 the speedup is 1.40 for 110 keys and heads of 96, 1.30 for 197 of
// 64, 1.27 for 512 of 64 and 1.07 for 512 of 128 with a mask; where half of it does not fit, 0.9.
bool takes_whole_heads(const FlashShape& shape, const CudaFacts& device, int keys) {
  if (!shape.covers || shape.function) return false;
  if (shape.keys <= keys) return true;
  constexpr int64_t kElementBytes = 2 + 2 + 4;
  const int64_t often = std::min<int64_t>(shape.key_heads, device.multiprocessors) *
                        (shape.heads / shape.key_heads) * shape.queries * shape.head_dim() *
                        kElementBytes / (shape.mask != 0 ? 2 : 1);
  return divide_evenly(shape.key_heads, device) && often <= device.l2_bytes / 3 * 2;
}

std::vector<BackwardKeysTile> backward_warpgroup_tiles(const FlashShape& shape,
                                                       const CudaFacts& device, bool single_pass) {
  const auto tile = [&](BackwardKernel kernel, int keys) {
    return BackwardKeysTile{.queries = 64,
                            .keys = keys,
                            .warps = 16,
                            .stages = shape.head_dim() > 192 ? 2 : 3,  // as many as fit
                            .split = 1,
                            .blocks = 1,
                            .kernel = kernel};
  };
  const BackwardKeysTile wide = tile(BackwardKernel::warpgroups_wide, 64);
  if (shape.head_dim() > 128) return {wide};
  const BackwardKeysTile usual = tile(BackwardKernel::warpgroups, 128);
  if (single_pass && takes_whole_heads(shape, device, usual.keys)) {
    BackwardKeysTile whole = usual;
    whole.whole_heads = true;
    return {whole, usual};
  }
  // Where each of twice as many blocks has a multiprocessor of its own, they end earlier: 1.4 times
  // as fast for 2 heads of 1517 keys. But these cannot add up gradients of operands.
  const int64_t blocks = divide_up(shape.keys, int64_t{wide.keys}) * shape.key_heads;
  if (blocks <= device.multiprocessors && !shape.function) return {wide, usual};
  return {usual};
}

template <class Tile>
const std::vector<Tile>& row_for(const std::vector<TileRow<Tile>>& table, const FlashShape& shape) {
  for (const TileRow<Tile>& row : table)
    if (row.planes == shape.planes() && shape.width <= row.width) return row.tiles;
  throw Error(
      ErrorKind::unsupported,
      fmt::format("attention heads are {} wide, and the CUDA flash kernels support up to {}",
                  shape.width, kMaxFlashWidth),
      "use the naive implementation");
}

template <class Tile, class SharedBytes>
std::vector<Tile> that_fit(const std::vector<Tile>& tiles, const CudaFacts& device,
                           const FlashShape& shape, SharedBytes shared_bytes) {
  std::vector<Tile> fitting;
  for (const Tile& tile : tiles)
    if (shared_bytes(tile) <= device.shared_bytes_per_block) fitting.push_back(tile);
  if (fitting.empty())
    throw Error(
        ErrorKind::unsupported,
        fmt::format(
            "no flash tile for {} heads of width {} fits the {} bytes of shared memory of {}",
            info(shape.dtype).name, shape.width, device.shared_bytes_per_block, device.name),
        "use a 16-bit dtype or the naive implementation");
  return fitting;
}

// Returns the queries times keys that the busiest multiprocessor computes under a causal mask:
// blocks keep `side` of the `kept` rows of a head and loop over the `walked` others by `step`.
int64_t busiest(const CudaFacts& device, int64_t kept, int64_t heads, int64_t walked, int64_t side,
                int64_t step) {
  const int64_t rounds = divide_up(divide_up(kept, side) * heads, device.multiprocessors);
  return rounds * side * (walked + side + step);
}

// How much slower a multiprocessor is with a smaller tile, as measured.
constexpr double kForwardLoss = 1.15;
constexpr double kForwardWarpgroupsLoss = 1.36;
constexpr double kBackwardLoss = 1.3;

// For short sequences, above all masked ones: moves the tile that balances the work best to the
// front if that makes up for the loss.
template <class Tile, class Busiest>
void prefer_even_tile(std::vector<Tile>& tiles, double loss, Busiest busiest_of) {
  const auto best = std::min_element(tiles.begin(), tiles.end(), [&](const Tile& a, const Tile& b) {
    return busiest_of(a) < busiest_of(b);
  });
  if (static_cast<double>(busiest_of(tiles[0])) > loss * static_cast<double>(busiest_of(*best)))
    std::rotate(tiles.begin(), best, best + 1);
}

}  // namespace

int FlashShape::head_dim() const {
  const int step = width > 128 ? 32 : 16;
  return (width + step - 1) / step * step;
}

int FlashShape::planes() const {
  return dtype == DType::f32 ? 2 : dtype == DType::tf32 ? 1 : 0;
}

int64_t FlashShape::row_bytes() const {
  return head_dim() * element_bytes(*this) + 16;
}

int64_t ForwardTile::shared_bytes(const FlashShape& shape) const {
  if (kernel != ForwardKernel::portable) {
    constexpr int kNumberStages = 2, kNumberBytes = 16;  // of the numbers of tiles
    return 2 * panel_width(shape) * (query_stages * rows + 2 * stages * keys) +
           (query_stages + 2 * stages) * kBarrierBytes +
           (draws(shape) ? kNumberStages * (kNumberBytes + kBarrierBytes) : 0);
  }
  return shape.row_bytes() * (rows + 2 * stages * keys);
}

int64_t BackwardKeysTile::shared_bytes(const FlashShape& shape, bool single_pass) const {
  if (kernel != BackwardKernel::portable) {
    constexpr int kWarpSums = 16 * kPanelColumns * 4;  // bytes of a warp's staged sums
    const int64_t rows = 2 * panel_width(shape) * 2 * (keys + stages * queries);
    const int64_t d_scores = 2 * 2 * keys * queries, numbers = 2 * stages * 4 * queries;
    const int64_t tiles = rows + d_scores + numbers + (2 + 2 * stages + 2) * kBarrierBytes;
    if (kernel == BackwardKernel::warpgroups) return tiles + 4 * kWarpSums;
    return tiles + 4 * keys * queries + kBarrierBytes;  // weights passed between warpgroups
  }
  const int64_t weights = (queries * element_bytes(shape) + 16) * keys;
  const int64_t plane_scales = shape.planes() == 0 ? 0 : (keys / 16 * split + 3) / 4 * 16;
  return 2 * keys * shape.row_bytes() + stages * (2 * queries * shape.row_bytes() + 8 * queries) +
         (single_pass || split > 1 ? weights : 0) + (split > 1 ? weights : 0) + plane_scales;
}

int64_t BackwardQueriesTile::shared_bytes(const FlashShape& shape) const {
  if (kernel == BackwardKernel::warpgroups)
    return 2 * panel_width(shape) * 2 * (queries + stages * keys) +
           (2 + 2 * stages) * kBarrierBytes;
  return shape.row_bytes() * (2 * queries + 2 * stages * keys);
}

std::vector<ForwardTile> forward_tiles(const FlashShape& shape, const CudaFacts& device) {
  const auto shared_bytes = [&](const ForwardTile& tile) { return tile.shared_bytes(shape); };
  const auto busiest_of = [&](const ForwardTile& tile) {
    return busiest(device, shape.queries, shape.heads, shape.keys, tile.rows, tile.keys);
  };
  if (serves_warpgroups(shape, device)) {
    std::vector<ForwardTile> tiles =
        that_fit(forward_warpgroup_tiles(shape, device), device, shape, shared_bytes);
    prefer_even_tile(tiles, kForwardWarpgroupsLoss, busiest_of);
    if (const auto tile = forward_short_tile(shape, device)) tiles.insert(tiles.begin(), *tile);
    return tiles;
  }
  std::vector<ForwardTile> tiles =
      that_fit(row_for(forward_table(), shape), device, shape, shared_bytes);
  if (shape.mask != 0) {
    prefer_even_tile(tiles, kForwardLoss, busiest_of);
    return tiles;
  }
  // If the best tile leaves multiprocessors idle, tiles with fewer rows per warp are better: the
  // first of these that gives each multiprocessor a block, or else the smallest.
  const auto blocks = [&](const ForwardTile& tile) {
    return (shape.queries + tile.rows - 1) / tile.rows * shape.heads;
  };
  const auto rows_per_warp = [](const ForwardTile& tile) { return tile.rows / tile.warps; };
  if (blocks(tiles[0]) >= int64_t{tiles[0].blocks} * device.multiprocessors) return tiles;
  auto better = tiles.begin();
  for (auto tile = tiles.begin() + 1; tile != tiles.end(); ++tile)
    if (rows_per_warp(*tile) < rows_per_warp(tiles[0]) || tile->rows < tiles[0].rows)
      if (better == tiles.begin() || blocks(*better) < device.multiprocessors) better = tile;
  std::rotate(tiles.begin(), better, better + 1);
  return tiles;
}

bool may_draw(const FlashShape& shape, const CudaFacts& device) {
  return shape.mask != 0 && serves_warpgroups(shape, device) &&
         std::ranges::any_of(forward_tiles(shape, device),
                             [&](const ForwardTile& tile) { return tile.draws(shape); });
}

std::vector<BackwardKeysTile> backward_keys_tiles(const FlashShape& shape, const CudaFacts& device,
                                                  bool single_pass) {
  std::vector<BackwardKeysTile> tiles;
  if (serves_warpgroups(shape, device))
    tiles = backward_warpgroup_tiles(shape, device, single_pass);
  else
    for (BackwardKeysTile tile : row_for(backward_keys_table(), shape))
      // Warps that share keys split the width into multiples of 16.
      if (shape.head_dim() % (16 * tile.split) == 0) tiles.push_back(tile);
  tiles = that_fit(tiles, device, shape, [&](const BackwardKeysTile& tile) {
    return tile.shared_bytes(shape, single_pass);
  });
  if (shape.mask != 0)
    prefer_even_tile(tiles, kBackwardLoss, [&](const BackwardKeysTile& tile) {
      return busiest(device, shape.keys, shape.key_heads,
                     shape.queries * shape.heads / shape.key_heads, tile.keys, tile.queries);
    });
  return tiles;
}

std::vector<BackwardQueriesTile> backward_queries_tiles(const FlashShape& shape,
                                                        const CudaFacts& device) {
  // With heads of 112, or with a score function, 128 keys at a time need too many registers.
  if (serves_warpgroups(shape, device) && shape.head_dim() <= 128)
    return {{.queries = 128,
             .keys = shape.function            ? 64
                     : shape.head_dim() == 112 ? 96
                                               : 128,
             .warps = 12,
             .stages = 2,
             .blocks = 1,
             .kernel = BackwardKernel::warpgroups}};
  return that_fit(row_for(backward_queries_table(), shape), device, shape,
                  [&](const BackwardQueriesTile& tile) { return tile.shared_bytes(shape); });
}

}  // namespace ridgeline
