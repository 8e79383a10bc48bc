// Compiles resident kernels for a GPU that need not be here.
#include "kernels/cuda/resident/resident.h"

#include <gtest/gtest.h>

#include "compile/lower.h"
#include "jit/cuda_jit.h"
#include "jit/cuda_libraries.h"
#include "models/gemma3_cache.h"

namespace ridgeline {
namespace {

TEST(ResidentKernel, CompilesForHopperWithoutSpills) {
  const CudaFacts hopper{.name = "an H200",
                         .compute_capability = 90,
                         .multiprocessors = 132,
                         .shared_bytes_per_block = 232448};
  std::vector<CudaKernel> kernels;
  for (const char* name : {"270m", "1b"}) {
    Gemma3Config config = gemma3_config(name);
    config.layers.resize(2);
    const Graph traced = gemma3_decode_graph(
        config, {.capacity = 128, .attention = AttentionForm::fused, .greedy = true});
    const Graph graph =
        lower([&](const Rewrite& forward) { return forward(traced); }, {.mode = Mode::compiled})
            .graph;
    const Plan plan = make_plan(graph);
    std::string why;
    const std::optional<ResidentPlan> resident = make_resident(graph, plan, why);
    ASSERT_TRUE(resident) << why;
    const std::optional<CudaResident> planned = plan_resident(
        graph, plan, *resident, hopper, [](Value) -> void* { return nullptr; }, why);
    ASSERT_TRUE(planned) << why;
    EXPECT_LE(planned->launch.shared_bytes, hopper.shared_bytes_per_block);
    kernels.push_back(planned->launch.kernel);

    CudaFacts older = hopper;
    older.compute_capability = 80;
    EXPECT_FALSE(plan_resident(
        graph, plan, *resident, older, [](Value) -> void* { return nullptr; }, why));
    EXPECT_EQ(why, "it needs a Hopper GPU");

    CudaFacts larger = hopper;
    larger.multiprocessors = 257;
    EXPECT_FALSE(plan_resident(
        graph, plan, *resident, larger, [](Value) -> void* { return nullptr; }, why));
    EXPECT_EQ(why, "it supports up to 256 multiprocessors, and the GPU has 257");
  }
  if (!cuda_library("nvrtc"))
    GTEST_SKIP() << "NVRTC is not installed: " << cuda_library("nvrtc").how_to_get;
  const CudaJit jit({.arch = "sm_90a", .cache_dir = "off"});
  for (const MachineCode& code : jit.machine_codes(kernels)) {
    const KernelResources resources = kernel_resources(code.log);
    EXPECT_GT(resources.registers, 0) << code.log;
    EXPECT_LE(resources.spill_bytes, 64) << code.log;
  }
}

}  // namespace
}  // namespace ridgeline
