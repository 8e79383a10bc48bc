// Decode steps of several texts whose kernels are merged against the same steps node by node.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "models/gemma3_cache.h"
#include "models/gemma3_run.h"
#include "support/gpu.h"

namespace ridgeline {
namespace {

using testing::gemma_inputs;
using testing::gemma_weights;
using testing::GemmaRunner;

Gemma3Config small_config(const char* name) {
  Gemma3Config config = gemma3_config(name);
  config.layers = {Gemma3Layer::sliding, Gemma3Layer::full, Gemma3Layer::sliding};
  config.intermediate_size = config.vocabulary = 2048;
  config.sliding_window = 64;
  return config;
}

// Largest and second largest of the logits of text `text`.
double lead_of(const std::vector<double>& logits, int64_t vocabulary, int64_t text) {
  std::vector<double> own(logits.begin() + text * vocabulary,
                          logits.begin() + (text + 1) * vocabulary);
  std::ranges::nth_element(own, own.begin() + 1, std::greater<>());
  return own[0] - own[1];
}

void expect_equal_steps(CudaDevice& device, const char* name, int64_t batch, int steps) {
  const Gemma3Config config = small_config(name);
  const Gemma3CacheOptions options{.batch_size = batch,
                                   .capacity = 192,
                                   .attention = AttentionForm::fused,
                                   .greedy = true,
                                   .history = 16};
  const Graph graph = gemma3_decode_graph(config, options);
  const InterpreterInputs inputs =
      gemma_inputs(config, gemma_weights(config, 7), {}, options.capacity);
  GemmaRunner single(device, graph, Mode::vanilla, inputs),
      merged(device, graph,
             CompileOptions{.mode = Mode::compiled, .resident = false, .merge = true}, inputs);
  const auto kernels = static_cast<int64_t>(merged.executable().plan()->kernels.size());
  // Two layers' products and attentions of seven kernels, three and two, or attentions alone.
  ASSERT_LE(merged.executable().launches(), kernels - 3 * (batch <= 16 ? 9 : 6));
  std::vector<double> tokens;
  for (int64_t i = 0; i < batch; ++i) tokens.push_back(static_cast<double>(11 + 5 * i));
  for (int step = 0; step < steps; ++step) {
    single.set("tokens", tokens);
    merged.set("tokens", tokens);
    single.run();
    merged.run();
    const std::vector<double> expected = single.output("logits"), got = merged.output("logits");
    double error = 0, scale = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error = std::max(error, std::abs(got[i] - expected[i]));
      scale = std::max(scale, std::abs(expected[i]));
    }
    ASSERT_LE(error, scale / 64) << name << " batch " << batch << " step " << step;
    tokens = single.output("tokens");
    const std::vector<double> ours = merged.output("tokens");
    for (int64_t i = 0; i < batch; ++i)
      if (lead_of(expected, config.vocabulary, i) > 2 * error) {
        ASSERT_EQ(ours[static_cast<size_t>(i)], tokens[static_cast<size_t>(i)])
            << name << " batch " << batch << " text " << i << " step " << step;
      }
    ASSERT_EQ(merged.output("position")[0], step + 1);
  }
  // What attention stored on its way is what appends store.
  for (const char* cache :
       {"layers.0.keys", "layers.0.values", "layers.2.keys", "layers.1.values"}) {
    const std::vector<double> expected = single.output(cache), got = merged.output(cache);
    double error = 0, scale = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error = std::max(error, std::abs(got[i] - expected[i]));
      scale = std::max(scale, std::abs(expected[i]));
    }
    EXPECT_GT(scale, 0) << cache;
    EXPECT_LE(error, scale / 16) << cache << ' ' << name << " batch " << batch;
  }
}

TEST(Gemma3Merged, StepsAreThoseOfSingleKernelsPastWindowsAndRingsOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  if (device.cuda_facts().compute_capability < 90) GTEST_SKIP() << "needs a Hopper GPU";
  for (const auto& [name, batch, steps] : {std::tuple{"270m", 1, 150},
                                           {"270m", 8, 150},
                                           {"1b", 3, 80},
                                           {"1b", 16, 80},
                                           {"270m", 33, 80},
                                           {"4b", 2, 80}})
    expect_equal_steps(device, name, batch, steps);
}

// Milliseconds of a step of the whole model, weights of 0, 128 tokens behind it.
double step_ms(CudaDevice& device, const char* name, int64_t batch, const CompileOptions& options) {
  const Gemma3Config config = gemma3_config(name);
  const Graph graph = gemma3_decode_graph(config, {.batch_size = batch,
                                                   .capacity = 256,
                                                   .attention = AttentionForm::fused,
                                                   .greedy = true,
                                                   .history = 256});
  Executable executable([&](const Rewrite& forward) { return forward(graph); }, device, options);
  executable.prepare();
  for (const Value value : executable.graph().inputs()) {
    const std::string input = executable.graph().name(value);
    if (!executable.has_input(input)) continue;
    const TensorView view = executable.input(input);
    std::vector<char> bytes(static_cast<size_t>(byte_size({view.dtype, view.shape}).count));
    if (input == "position") bytes[0] = static_cast<char>(128);
    device.upload(view, bytes.data());
  }
  executable.run_times(2);
  constexpr int kSteps = 8;
  double best = 1e9;
  for (int i = 0; i < 5; ++i)
    best = std::min(best, device.time_ms([&] { executable.run_times(kSteps); }) / kSteps);
  return best;
}

// What one launch does must not take longer than the kernels that it is made of.
TEST(Gemma3Merged, StepsAreNotSlowerThanTheirKernelsOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  if (device.cuda_facts().compute_capability < 90) GTEST_SKIP() << "needs a Hopper GPU";
  for (const char* name : {"270m", "1b"})
    for (const int64_t batch : {1, 2, 4, 8, 16, 32, 64}) {
      const double apart =
          step_ms(device, name, batch, {.mode = Mode::compiled, .resident = false});
      const double merged =
          step_ms(device, name, batch, {.mode = Mode::compiled, .resident = false, .merge = true});
      const double staying =
          batch == 1 ? step_ms(device, name, batch, {.mode = Mode::compiled}) : 0.0;
      std::printf(
          "step of %s, batch %d, us: kernel by kernel %.1f, merged %.1f%s\n", name,
          static_cast<int>(batch), 1e3 * apart, 1e3 * merged,
          batch == 1 ? fmt::format(", one kernel that stays {:.1f}", 1e3 * staying).c_str() : "");
      EXPECT_LE(merged, 1.05 * apart) << name << " batch " << batch;
    }
}

}  // namespace
}  // namespace ridgeline
