// Compiles merged kernels for a GPU that need not be here.
#include "kernels/cuda/merged/merged.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/lower.h"
#include "jit/cuda_jit.h"
#include "jit/cuda_libraries.h"
#include "models/gemma3_cache.h"

namespace ridgeline {
namespace {

const CudaFacts kHopper{.name = "an H200",
                        .compute_capability = 90,
                        .multiprocessors = 132,
                        .shared_bytes_per_block = 232448,
                        .shared_bytes_per_multiprocessor = 233472};

struct Step {
  Graph graph;
  Plan plan;
};

Step decode_step(const char* name, int64_t batch) {
  Gemma3Config config = gemma3_config(name);
  config.layers.resize(2);
  const Graph traced = gemma3_decode_graph(config, {.batch_size = batch,
                                                    .capacity = 256,
                                                    .attention = AttentionForm::fused,
                                                    .greedy = true,
                                                    .history = 256});
  Graph graph =
      lower([&](const Rewrite& forward) { return forward(traced); }, {.mode = Mode::compiled})
          .graph;
  Plan plan = make_plan(graph, {.early_updates = true, .merge = true});
  return {std::move(graph), std::move(plan)};
}

// As if every storage began at address 0.
TensorView view_of(const Step& step, Value value) {
  const Layout& layout = step.plan.layouts[step.graph.index(value)];
  const TensorType& type = step.graph.type(value);
  return {reinterpret_cast<char*>(layout.offset * info(type.dtype).size), type.dtype, type.shape,
          layout.strides};
}

std::vector<std::vector<CudaLaunch>> launches_of(const Step& step) {
  std::vector<std::vector<CudaLaunch>> all;
  for (const Merge& merge : step.plan.merges)
    all.push_back(plan_merged(step.graph, step.plan, merge, kHopper,
                              [&](Value value) { return view_of(step, value); }));
  return all;
}

TEST(MergedKernels, ALayerOfGemmaIsFiveLaunches) {
  for (const char* name : {"270m", "1b", "4b"})
    for (const int64_t batch : {1, 2, 8, 16}) {
      const Step step = decode_step(name, batch);
      // Of each layer: the product of queries, keys and values behind a norm, the attention with
      // all that leads to it, and the products of the MLP's first half, which a norm leads to and
      // an activation follows. And the head.
      ASSERT_EQ(step.plan.merges.size(), 7u) << name << ' ' << batch;
      for (size_t i = 0; i < 6; ++i) {
        const Merge& merge = step.plan.merges[i];
        EXPECT_EQ(merge.kind, i % 3 == 1 ? Merge::Kind::attention : Merge::Kind::product);
        EXPECT_EQ(merge.end - merge.begin, i % 3 == 0 ? 2u : i % 3 == 1 ? 7u : 3u);
      }
      const auto launches = launches_of(step);
      for (size_t i = 0; i < 6; ++i) EXPECT_FALSE(launches[i].empty()) << name << ' ' << i;
      EXPECT_TRUE(launches[6].empty()) << "thousands of blocks would compute the last norm";
    }
}

TEST(MergedKernels, ManyRowsAreNotComputedByEveryBlock) {
  const Step step = decode_step("270m", 17);
  ASSERT_EQ(step.plan.merges.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const Merge& merge = step.plan.merges[i];
    EXPECT_EQ(merge.kind, i % 2 == 0 ? Merge::Kind::attention : Merge::Kind::product);
    EXPECT_EQ(merge.end - merge.begin, i % 2 == 0 ? 7u : 2u) << "an activation behind its product";
  }
  const Step many = decode_step("270m", 65);
  ASSERT_EQ(many.plan.merges.size(), 2u);
  for (const Merge& merge : many.plan.merges) EXPECT_EQ(merge.kind, Merge::Kind::attention);
}

// Blocks do not wait for each other, so nothing that one of them writes may lie where another
// still reads.
TEST(MergedKernels, WhatALaunchTouchesLiesApart) {
  const Step step = decode_step("1b", 8);
  const auto range = [&](Value storage) -> std::pair<int64_t, int64_t> {
    const int64_t begin = step.plan.offsets[step.graph.index(storage)];
    if (begin == Plan::kNotInArena) return {-1, -1};
    return {begin, begin + byte_size(step.graph.type(storage)).count};
  };
  int compared = 0;
  for (const Merge& merge : step.plan.merges) {
    std::vector<Value> read, written;
    for (uint32_t i = merge.begin; i < merge.end; ++i) {
      const Group& group = step.plan.kernels[i].group;
      read.insert(read.end(), group.reads.begin(), group.reads.end());
      written.insert(written.end(), group.writes.begin(), group.writes.end());
    }
    for (const Value to : written)
      for (const Value from : read) {
        if (to == from || range(to).first < 0 || range(from).first < 0) continue;
        ++compared;
        EXPECT_TRUE(range(to).second <= range(from).first || range(from).second <= range(to).first)
            << step.graph.name(to) << " lies on " << step.graph.name(from);
      }
  }
  EXPECT_GT(compared, 20);
}

TEST(MergedKernels, CompileForHopperWithoutSpills) {
  if (!cuda_library("nvrtc"))
    GTEST_SKIP() << "NVRTC is not installed: " << cuda_library("nvrtc").how_to_get;
  std::vector<CudaKernel> kernels;
  std::vector<std::string> names;
  for (const auto& [name, batch] :
       {std::pair{"270m", 1}, {"270m", 16}, {"1b", 8}, {"1b", 16}, {"1b", 32}, {"4b", 16}})
    for (const std::vector<CudaLaunch>& ways : launches_of(decode_step(name, batch)))
      for (const CudaLaunch& way : ways) {
        EXPECT_LE(way.shared_bytes, kHopper.shared_bytes_per_block);
        if (std::ranges::find(kernels, way.kernel) != kernels.end()) continue;
        kernels.push_back(way.kernel);
        names.push_back(fmt::format("{} batch {} {}", name, batch, way.kernel.entry));
      }
  const CudaJit jit({.arch = "sm_90a", .cache_dir = "off"});
  const std::vector<MachineCode> codes = jit.machine_codes(kernels);
  for (size_t i = 0; i < codes.size(); ++i) {
    const KernelResources resources = kernel_resources(codes[i].log);
    EXPECT_GT(resources.registers, 0) << names[i] << codes[i].log;
    EXPECT_LE(resources.spill_bytes, 64) << names[i] << codes[i].log;
  }
}

}  // namespace
}  // namespace ridgeline
