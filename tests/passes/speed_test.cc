// Passes take time in proportion to the graph, and little of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>

#include "support/models.h"

namespace ridgeline {
namespace {

TransformerConfig config(int64_t layers) {
  return {.d_model = 16,
          .d_ff = 24,
          .layers = layers,
          .heads = 2,
          .vocabulary = 11,
          .batch_size = 2,
          .context_length = 5};
}

// Of the processor, so that other work on the machine counts little.
double seconds_now() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Times {
  double build = 1e9;
  double passes = 1e9;
  size_t nodes = 0;
};

// Of several runs the fastest: a graph as it is, and the time that the passes add.
Times best_times(int64_t layers) {
  Times best;
  double compiled = 1e9;
  const auto seconds = [&](Mode mode) {
    const double begin = seconds_now();
    best.nodes =
        testing::lowered_model({.config = config(layers), .precision = ModelPrecision::mixed, .mode = mode},
                    Scenario::full_step)
            .graph.nodes()
            .size();
    return seconds_now() - begin;
  };
  for (int repetition = 0; repetition < 3; ++repetition) {
    compiled = std::min(compiled, seconds(Mode::compiled));
    best.build = std::min(best.build, seconds(Mode::vanilla));
  }
  best.passes = compiled - best.build;
  return best;
}

TEST(SlowPasses, TenThousandNodesCostNoMoreThanBuildingThemAFewTimes) {
  const Times small = best_times(25);
  const Times large = best_times(100);
  RecordProperty("passes", fmt::format("{:.0f} ms for {} nodes, built in {:.0f} ms",
                                       large.passes * 1e3, large.nodes, large.build * 1e3));
  EXPECT_GT(large.nodes, 10000u);
  EXPECT_LT(large.passes, 5 * large.build);
  // Four times the layers: linear is 4, quadratic 16.
  EXPECT_LT(large.passes, 8 * small.passes);
}

}  // namespace
}  // namespace ridgeline
