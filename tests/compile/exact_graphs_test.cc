// Every rung of the ladder, in every precision, gives the numbers of the fp64 interpreter for
// graphs whose values are exact (exact_graph.h).
#include <gtest/gtest.h>

#include "compile/executable.h"
#include "runtime/compiled_support.h"
#include "support/exact_graph.h"
#include "support/from_environment.h"

namespace ridgeline::exact_graphs_test {
namespace {

using testing::ExactGraphMaker;
using testing::first_seed;
using testing::graphs_wanted;
using testing::RandomGraph;
using testing::Results;

TEST(ExactGraphsOnLadder, EveryRungComputesTheSame) {
  CpuDevice device({.threads = 3, .compiler = {.cache_dir = "off"}});
  for (uint64_t seed = first_seed(); seed < first_seed() + graphs_wanted(10); ++seed) {
    const auto products =
        std::array<std::optional<DType>, 3>{std::nullopt, DType::bf16, DType::f16}[seed % 3];
    const int64_t checkpointed = static_cast<int64_t>(seed / 3 % 3);
    const RandomGraph made = ExactGraphMaker(seed).make(14);
    const Trace trace = [&](const Rewrite& forward) { return forward(made.graph); };
    const Graph plain = lower(trace, {.products = products}).graph;
    const Results expected = testing::interpreted(plain, made.inputs);
    for (const ModeInfo& mode : modes()) {
      SCOPED_TRACE(::testing::Message() << mode.name << ", seed " << seed);
      Executable executable(trace, device,
                            {.mode = mode.mode,
                             .products = products,
                             .checkpoint_blocks = checkpointed,
                             .budget = seed % 2 == 0 ? Bytes{1} : Bytes{1 << 30}});
      device.ledger().start_over();
      executable.prepare();
      ASSERT_EQ(executable.fallback(), "");
      for (const auto& [name, values] : made.inputs)
        testing::upload(device, executable.input(name), values);
      executable.set_poison(true);
      // Outputs are complete when their stage has run, and stay as they are.
      Results got;
      for (size_t stage = 0; stage < plain.stages().size(); ++stage) {
        executable.run_stage(stage);
        for (const Output& output : plain.outputs()) {
          if (plain.stage_of(output.value.node) > stage) continue;
          const auto values = testing::elements(device, executable.output(output.name));
          const auto& first = got.try_emplace(output.name, values).first->second;
          ASSERT_TRUE(std::ranges::equal(values, first, [](double a, double b) {
            return a == b || (std::isnan(a) && std::isnan(b));
          })) << output.name;
        }
      }
      ASSERT_EQ(testing::disagreement(plain, got, expected, testing::Tolerance::none()), "")
          << to_text(plain) << "\n"
          << executable.explain();
      EXPECT_EQ(device.ledger().peak(), executable.predicted_peak());
    }
  }
}

}  // namespace
}  // namespace ridgeline::exact_graphs_test
