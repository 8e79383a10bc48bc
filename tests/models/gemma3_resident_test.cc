// Decode steps as one resident kernel against the same steps node by node.
#include <gtest/gtest.h>

#include <algorithm>

#include "models/gemma3_cache.h"
#include "models/gemma3_run.h"
#include "support/gpu.h"

namespace ridgeline {
namespace {

using testing::gemma_inputs;
using testing::gemma_weights;
using testing::GemmaRunner;

// Largest and second largest.
double lead_of(std::vector<double> logits) {
  std::ranges::nth_element(logits, logits.begin() + 1, std::greater<>());
  return logits[0] - logits[1];
}

TEST(Gemma3Resident, StepsAreThoseOfSingleKernelsPastWindowsAndRingsOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  if (device.cuda_facts().compute_capability != 90) GTEST_SKIP() << "needs a Hopper GPU";
  for (const char* name : {"270m", "1b"}) {
    Gemma3Config config = gemma3_config(name);
    config.layers = {Gemma3Layer::sliding, Gemma3Layer::full, Gemma3Layer::sliding};
    config.vocabulary = 4096;
    config.sliding_window = 64;
    const Gemma3CacheOptions options{
        .capacity = 256, .attention = AttentionForm::fused, .greedy = true, .history = 16};
    const Graph graph = gemma3_decode_graph(config, options);
    const InterpreterInputs inputs =
        gemma_inputs(config, gemma_weights(config, 7), {}, options.capacity);
    GemmaRunner single(device, graph, Mode::vanilla, inputs),
        fast(device, graph, Mode::compiled, inputs);
    ASSERT_TRUE(fast.executable().is_resident()) << fast.executable().why_not_resident();
    std::vector<double> token = {11};
    for (int step = 0; step < 200; ++step) {
      single.set("tokens", token);
      fast.set("tokens", token);
      single.run();
      fast.run();
      const std::vector<double> expected = single.output("logits"), got = fast.output("logits");
      double error = 0, scale = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        error = std::max(error, std::abs(got[i] - expected[i]));
        scale = std::max(scale, std::abs(expected[i]));
      }
      ASSERT_LE(error, scale / 64) << name << " step " << step;  // both round to bf16 on the way
      token = single.output("tokens");
      if (lead_of(expected) > 2 * error) {
        ASSERT_EQ(fast.output("tokens"), token) << name << " step " << step;
      }
      ASSERT_EQ(fast.output("position")[0], step + 1);
    }
  }
}

TEST(Gemma3Resident, SeveralStepsOfOneStartAreThoseOfSeveralStartsOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  if (device.cuda_facts().compute_capability != 90) GTEST_SKIP() << "needs a Hopper GPU";
  Gemma3Config config = gemma3_config("270m");
  config.layers = {Gemma3Layer::sliding, Gemma3Layer::full};
  config.vocabulary = 4096;
  config.sliding_window = 64;
  const Gemma3CacheOptions options{
      .capacity = 256, .attention = AttentionForm::fused, .greedy = true, .history = 16};
  const Graph graph = gemma3_decode_graph(config, options);
  const InterpreterInputs inputs =
      gemma_inputs(config, gemma_weights(config, 7), {}, options.capacity);
  GemmaRunner single(device, graph, Mode::compiled, inputs),
      together(device, graph, Mode::compiled, inputs);
  single.set("tokens", {11});
  together.set("tokens", {11});
  for (const int steps : {1, 7, 2, 60, 90, 13}) {
    for (int i = 0; i < steps; ++i) single.run();
    together.executable().run_times(steps);
    for (const char* name : {"position", "tokens", "history", "logits"})
      ASSERT_EQ(together.output(name), single.output(name)) << name << " after " << steps;
  }
}

}  // namespace
}  // namespace ridgeline
