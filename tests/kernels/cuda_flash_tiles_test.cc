// Which tiles the flash kernels are cut into: they fit, and Hopper's kernels go where they can.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "kernels/cuda/attention/flash_tiles.h"

namespace ridgeline::cuda_flash_tiles_test {
namespace {

template <class T>
T pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

TEST(FlashTiles, FitTheDeviceAndUseWarpgroupsOnlyWhereTheyWork) {
  std::mt19937 random(42);
  int with_warpgroups = 0;
  for (int i = 0; i < 2000; ++i) {
    const FlashShape shape = {
        .dtype = pick(random, {DType::bf16, DType::f16, DType::f32, DType::tf32}),
        .width = static_cast<int>(random() % kMaxFlashWidth) + 1,
        .queries = pick<int64_t>(random, {1, 100, 1024, 16384}),
        .keys = pick<int64_t>(random, {1, 100, 1024, 16384}),
        .heads = 12,
        .key_heads = pick<int64_t>(random, {4, 12}),
        .mask = static_cast<int>(random() % 3),
        .function = random() % 2 == 0,
        .aligned = random() % 4 != 0,
        .boxed = random() % 4 != 0};
    CudaFacts device;
    device.compute_capability = pick(random, {80, 89, 90, 100, 120});
    device.shared_bytes_per_block = device.compute_capability == 90 ? 227 << 10 : 99 << 10;
    device.multiprocessors = 132;
    const bool single_pass = random() % 2 == 0;
    const bool can = device.compute_capability == 90 && shape.planes() == 0 && shape.aligned &&
                     shape.boxed && shape.head_dim() >= 32;
    with_warpgroups += can ? 1 : 0;
    for (const ForwardTile& tile : forward_tiles(shape, device)) {
      EXPECT_EQ(tile.kernel != ForwardKernel::portable, can);
      EXPECT_LE(tile.shared_bytes(shape), device.shared_bytes_per_block);
      const int loading_warps = tile.kernel == ForwardKernel::warpgroups ? 4 : 0;
      EXPECT_EQ(tile.rows % (16 * (tile.warps - loading_warps)), 0);
    }
    for (const BackwardKeysTile& tile : backward_keys_tiles(shape, device, single_pass)) {
      EXPECT_EQ(tile.kernel != BackwardKernel::portable, can);
      EXPECT_LE(tile.shared_bytes(shape, single_pass), device.shared_bytes_per_block);
      EXPECT_LE(tile.queries, kMaxQueryTile);
    }
    for (const BackwardQueriesTile& tile : backward_queries_tiles(shape, device)) {
      EXPECT_EQ(tile.kernel != BackwardKernel::portable, can && shape.head_dim() <= 128);
      EXPECT_LE(tile.shared_bytes(shape), device.shared_bytes_per_block);
      EXPECT_LE(tile.queries, kMaxQueryTile);
    }
  }
  EXPECT_GT(with_warpgroups, 10);
}

// For their width, with a mask as without, and whatever the GPU; scratch may be asked for before.
TEST(FlashTiles, AreRefusedForWiderHeads) {
  for (const int compute_capability : {80, 90})
    for (const int mask : {0, 1}) {
      const FlashShape shape = {
          .width = kMaxFlashWidth + 1, .queries = 1024, .keys = 1024, .heads = 600, .mask = mask};
      CudaFacts device;
      device.compute_capability = compute_capability;
      device.shared_bytes_per_block = 227 << 10;
      device.multiprocessors = 132;
      EXPECT_FALSE(may_draw(shape, device));
      const auto refuses = [&](const auto& tiles_of) {
        try {
          tiles_of();
          ADD_FAILURE() << "no refusal";
        } catch (const Error& error) {
          EXPECT_EQ(error.message(),
                    "attention heads are 257 wide, and the CUDA flash kernels support up to 256");
        }
      };
      refuses([&] { forward_tiles(shape, device); });
      refuses([&] { backward_keys_tiles(shape, device, true); });
      refuses([&] { backward_queries_tiles(shape, device); });
    }
}

// Scratch is sized for tensors of known shapes; rows that are not aligned, and multiprocessors that
// are left to collectives, show only when a tile is chosen.
TEST(FlashTiles, ThatDrawHaveACounter) {
  std::mt19937 random(2);
  int drawing = 0, without = 0;
  for (int round = 0; round < 3000; ++round) {
    const int64_t heads = pick<int64_t>(random, {1, 12, 40, 133, 300});
    FlashShape shape = {.dtype = pick(random, {DType::bf16, DType::f32}),
                        .width = static_cast<int>(random() % kMaxFlashWidth) + 1,
                        .queries = pick<int64_t>(random, {1, 100, 1024, 16384}),
                        .keys = pick<int64_t>(random, {1, 100, 1024, 16384}),
                        .heads = heads,
                        .key_heads = heads,
                        .mask = static_cast<int>(random() % 3),
                        .function = random() % 2 == 0};
    CudaFacts device;
    device.compute_capability = pick(random, {80, 89, 90, 100, 120});
    device.shared_bytes_per_block = device.compute_capability == 90 ? 227 << 10 : 99 << 10;
    device.multiprocessors = 132;
    const bool has_counter = may_draw(shape, device);
    without += has_counter ? 0 : 1;
    EXPECT_TRUE(!has_counter || device.compute_capability == 90);
    device.reserved_multiprocessors = pick(random, {0, 16});
    device.multiprocessors -= device.reserved_multiprocessors;
    shape.aligned = random() % 4 != 0;
    const bool draws = std::ranges::any_of(
        forward_tiles(shape, device), [&](const ForwardTile& tile) { return tile.draws(shape); });
    drawing += draws ? 1 : 0;
    EXPECT_EQ(draws, has_counter && shape.aligned);
  }
  EXPECT_GT(drawing, 10);
  EXPECT_GT(without, 1000);
}

TEST(FlashTiles, BlocksPersistWhereNoMultiprocessorWaitsLong) {
  CudaFacts device;
  device.compute_capability = 90;
  device.shared_bytes_per_block = 227 << 10;
  device.multiprocessors = 132;
  const auto persistent = [&](int width, int64_t heads, int64_t length, int mask) {
    const FlashShape shape{.width = width,
                           .queries = length,
                           .keys = length,
                           .heads = heads,
                           .key_heads = heads,
                           .mask = mask};
    return forward_tiles(shape, device)[0].persistent;
  };
  EXPECT_TRUE(persistent(128, 256, 1024, 0)) << "2048 tiles";
  EXPECT_FALSE(persistent(128, 35, 512, 0)) << "140 tiles: in two rounds, and most have only one";
  EXPECT_FALSE(persistent(128, 256, 16384, 0)) << "long";
  EXPECT_TRUE(persistent(64, 256, 16384, 0)) << "long, but narrow";
  EXPECT_TRUE(persistent(256, 132, 16384, 0)) << "long, but wide";
  EXPECT_TRUE(persistent(128, 256, 512, 1)) << "1024 tiles, drawn";
  EXPECT_FALSE(persistent(128, 66, 512, 1)) << "264 tiles, two for each";
  EXPECT_TRUE(persistent(128, 256, 16384, 1)) << "long, but drawn";
  EXPECT_FALSE(persistent(256, 256, 4096, 1)) << "wide";
  EXPECT_TRUE(persistent(256, 256, 1024, 1)) << "wide, but short";
}

// Tall tiles pay off from shorter lengths on where blocks draw them.
TEST(FlashTiles, MaskedNarrowHeadsGetTallTilesByLengthAndNumber) {
  CudaFacts device;
  device.compute_capability = 90;
  device.shared_bytes_per_block = 227 << 10;
  device.multiprocessors = 132;
  const auto rows = [&](int64_t heads, int64_t length) {
    const FlashShape shape{
        .queries = length, .keys = length, .heads = heads, .key_heads = heads, .mask = 1};
    return forward_tiles(shape, device)[0].rows;
  };
  EXPECT_EQ(rows(256, 1280), 64);
  EXPECT_EQ(rows(256, 1536), 192);
  EXPECT_EQ(rows(32, 1536), 64) << "256 tiles, no more than two for each multiprocessor";
  EXPECT_EQ(rows(32, 2048), 192);
}

TEST(FlashTiles, ShortSequencesComeFirstInStepsThatFitThem) {
  CudaFacts device;
  device.compute_capability = 90;
  device.shared_bytes_per_block = 227 << 10;
  device.multiprocessors = 132;
  // Keys of a step, or 0 where results are not stored directly from registers.
  const auto step = [&](int width, int64_t heads, int64_t length, int mask = 0) {
    const FlashShape shape{.width = width,
                           .queries = length,
                           .keys = length,
                           .heads = heads,
                           .key_heads = heads,
                           .mask = mask};
    const ForwardTile tile = forward_tiles(shape, device)[0];
    return tile.direct ? tile.keys : 0;
  };
  EXPECT_EQ(step(96, 2560, 110), 112);
  EXPECT_EQ(step(104, 384, 157), 80);
  EXPECT_EQ(step(128, 256, 257), 96);
  EXPECT_EQ(step(160, 1280, 145), 80);
  EXPECT_EQ(step(208, 128, 222), 80);
  EXPECT_EQ(step(256, 128, 1024), 80);
  EXPECT_EQ(step(256, 128, 1024, 1), 80);
  EXPECT_EQ(step(128, 256, 1024), 128) << "long";
  EXPECT_EQ(step(96, 256, 1024), 0) << "long, and slower so";
  EXPECT_EQ(step(128, 1024, 512, 1), 128) << "masked";
  EXPECT_EQ(step(64, 1536, 197), 0) << "small tiles are as fast";
  EXPECT_EQ(step(128, 8, 257), 0) << "a tile for each block";
  EXPECT_EQ(step(128, 256, 64), 0) << "half a tile";
}

}  // namespace
}  // namespace ridgeline::cuda_flash_tiles_test
