// Graphs whose values are exact (exact_graph.h): eager, compiled and rewritten, with any number of
// threads and any vectors, give the numbers of the fp64 interpreter.
#include <gtest/gtest.h>

#include "cost/memory.h"
#include "passes/decompose.h"
#include "passes/simplify.h"
#include "plan/recompute.h"
#include "runtime/compiled_support.h"
#include "runtime/scratch.h"
#include "support/exact_graph.h"
#include "support/from_environment.h"

namespace ridgeline::exact_graphs_test {
namespace {

using testing::ExactGraphMaker;
using testing::first_seed;
using testing::graphs_wanted;
using testing::RandomGraph;
using testing::Results;
using testing::Tolerance;

class ExactGraphs : public ::testing::TestWithParam<Isa> {};

TEST_P(ExactGraphs, RunEagerly) {
  CpuDevice one({.threads = 1, .isa = GetParam()}), three({.threads = 3, .isa = GetParam()});
  for (uint64_t seed = first_seed(); seed < first_seed() + graphs_wanted(300); ++seed) {
    const RandomGraph made = ExactGraphMaker(seed).make(12);
    const Results expected = testing::interpreted(made.graph, made.inputs);
    for (Device* device : {&one, &three}) {
      const Results got = testing::run_eager(made.graph, made.inputs, *device);
      ASSERT_EQ(testing::disagreement(made.graph, got, expected, Tolerance::none()), "")
          << "seed " << seed << "\n"
          << to_text(made.graph);
    }
  }
}

TEST_P(ExactGraphs, RunEagerlyInParts) {
  CpuDevice device({.threads = 3, .isa = GetParam()});
  for (uint64_t seed = first_seed(); seed < first_seed() + graphs_wanted(8); ++seed) {
    const RandomGraph made = ExactGraphMaker(seed).large().make(8);
    const Results got = testing::run_eager(made.graph, made.inputs, device);
    ASSERT_EQ(testing::disagreement(made.graph, got, testing::interpreted(made.graph, made.inputs),
                                    Tolerance::none()),
              "")
        << "seed " << seed << "\n"
        << to_text(made.graph);
  }
}

INSTANTIATE_TEST_SUITE_P(AllInstructionSets, ExactGraphs, ::testing::ValuesIn(supported_isas()),
                         [](const auto& param_info) {
                           return std::string(name(param_info.param));
                         });

TEST(ExactGraphsOnCpu, StayTheSameThroughPasses) {
  for (uint64_t seed = first_seed(); seed < first_seed() + graphs_wanted(300); ++seed) {
    const RandomGraph made = ExactGraphMaker(seed).make(12);
    const Graph after = simplify(decompose(made.graph));
    ASSERT_EQ(
        testing::disagreement(after, testing::interpreted(after, made.inputs),
                              testing::interpreted(made.graph, made.inputs), Tolerance::none()),
        "")
        << "seed " << seed << "\n"
        << to_text(made.graph) << "after\n"
        << to_text(after);
  }
}

CpuDevice& device() {
  static CpuDevice cpu({.threads = 3, .compiler = {.cache_dir = "off"}});
  return cpu;
}

TEST(ExactGraphsOnCpu, RunCompiled) {
  testing::expect_agreement_of_many(first_seed(), graphs_wanted(100), Tolerance::none(), device(),
                                    [](uint64_t seed) { return ExactGraphMaker(seed).make(12); });
}

TEST(ExactGraphsOnCpu, RunCompiledAfterPasses) {
  testing::expect_agreement_of_many(first_seed() + 10000, graphs_wanted(100), Tolerance::none(),
                                    device(),
                                    [](uint64_t seed) {
                                      RandomGraph made = ExactGraphMaker(seed).make(20);
                                      made.graph = simplify(decompose(made.graph));
                                      return made;
                                    },
                                    {.overlap = true, .early_updates = true});
}

TEST(ExactGraphsOnCpu, RunCompiledInParts) {
  testing::expect_agreement_of_many(first_seed(), graphs_wanted(20), Tolerance::none(), device(),
                                    [](uint64_t seed) {
                                      RandomGraph made = ExactGraphMaker(seed).large().make(8);
                                      if (seed % 2 == 0)
                                        made.graph = simplify(decompose(made.graph));
                                      return made;
                                    });
}

// Budgets that no plan meets, and some that a few recomputed results meet.
TEST(ExactGraphsOnCpu, RunCompiledWithResultsRecomputed) {
  size_t recomputed = 0;
  for (uint64_t seed = first_seed(); seed < first_seed() + graphs_wanted(200); ++seed) {
    RandomGraph made = ExactGraphMaker(seed).make(20);
    const Plan whole = make_plan(made.graph);
    const Bytes budget{whole.inputs.count + whole.arena.count * static_cast<int64_t>(seed % 4) / 4};
    FittedPlan fitted = plan_within(made.graph, {}, budget);
    EXPECT_LE(fitted.plan.peak(), whole.peak());
    if (!fitted.graph) continue;
    recomputed += fitted.recomputed;
    made.graph = std::move(*fitted.graph);
    testing::expect_agreement(std::move(made), Tolerance::none(), seed, device());
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(recomputed, 0u);
}

// The account of the memory is what the ledger sees, eagerly and compiled.
TEST(ExactGraphsOnCpu, TakeAsMuchMemoryAsPredicted) {
  CpuDevice cpu({.threads = 1, .compiler = {.cache_dir = "off"}});
  for (uint64_t seed = first_seed(); seed < first_seed() + graphs_wanted(300); ++seed) {
    const RandomGraph made = ExactGraphMaker(seed).make(20);
    const Schedule schedule = eager_schedule(made.graph);
    cpu.ledger().start_over();
    testing::run_eager(made.graph, made.inputs, cpu);
    EXPECT_EQ(cpu.ledger().peak(), memory(made.graph, schedule, scratch_of(cpu)).peak)
        << "seed " << seed;
    if (HasFailure()) return;
  }
}

// What an update overwrites is not there between it and the next update of the same tensor either.
TEST(ExactGraphsOnCpu, AValueFromBeforeTwoUpdatesIsNotComputedAgainBetweenThem) {
  Graph graph;
  const TensorType rows{DType::f32, {1, 2, 3}};
  const Tensor cache(graph, graph.input({"cache", Role::cache}, {DType::f32, {1, 5, 3}}));
  const Tensor position(graph, graph.input({"position", Role::step_scalars}, {DType::i32, {1}}));
  const Tensor twice = cache * 2.0;
  const Tensor once = append(cache, input(graph, "first", rows), position);
  const Tensor between = once + 1.0;
  const Tensor last = append(once, input(graph, "second", rows), position);
  graph.mark_output("difference", (twice - between).value());
  graph.mark_output("last", last.value());
  const InterpreterInputs inputs{{"cache", std::vector<double>(15, 3)},
                                 {"position", {1}},
                                 {"first", {1, 2, 3, 4, 5, 6}},
                                 {"second", {-1, -2, -3, -4, -5, -6}}};
  EXPECT_EQ(testing::fault(graph, inputs, Tolerance::none(), device()), "");
}

}  // namespace
}  // namespace ridgeline::exact_graphs_test
