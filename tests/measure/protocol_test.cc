#include "measure/protocol.h"

#include <gtest/gtest.h>

#include <cmath>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

// A workload with a simulated clock: each run takes `seconds[run % size]`.
struct FakeWorkload {
  std::vector<double> seconds;
  double clock_s = 0;
  int runs = 0;

  TimedIteration iteration() {
    return [this](std::span<double> phase_ms) {
      const double s = seconds[static_cast<size_t>(runs++) % seconds.size()];
      clock_s += s;
      phase_ms[0] = s * 1e3;
    };
  }
  MeasureHooks hooks() {
    return {.now_s = [this] { return clock_s; }};
  }
};

TEST(Protocol, WarmsUpAndThenTakesExactlyTheIterationsAskedFor) {
  FakeWorkload work{.seconds = {9, 9, 9, 1, 2, 3, 4}};
  const Measurement m =
      measure({.warmups = 3, .iterations = 4}, {"forward"}, work.iteration(), work.hooks());
  EXPECT_EQ(work.runs, 7);
  EXPECT_EQ(m.series[0].samples_ms, (std::vector<double>{1000, 2000, 3000, 4000}));
  EXPECT_EQ(m.series[0].statistics.median_ms, 2500);
  EXPECT_EQ(m.protocol.warmups, 3);
  EXPECT_EQ(m.protocol.iterations, 4);
  EXPECT_EQ(m.protocol.stopping_rule, StoppingRule::iterations_done);
}

TEST(Protocol, SaysOnceWhenTheWarmUpsAreOverAndTakesNoTimeOfThem) {
  for (const int warmups : {0, 3}) {
    FakeWorkload work{.seconds = {1}};
    MeasureHooks hooks = work.hooks();
    std::vector<int> runs_before;
    hooks.warm = [&] {
      runs_before.push_back(work.runs);
      work.clock_s += 50;
    };
    const Measurement m =
        measure({.warmups = warmups, .iterations = 4}, {"forward"}, work.iteration(), hooks);
    EXPECT_EQ(runs_before, std::vector{warmups});
    EXPECT_EQ(m.series[0].samples_ms, std::vector<double>(4, 1000));
  }
}

TEST(Protocol, KeepsTheSeriesOfSeveralPhasesApart) {
  int run = 0;
  const Measurement m = measure({.warmups = 0, .iterations = 3}, {"forward", "backward"},
                                [&](std::span<double> phase_ms) {
                                  ++run;
                                  phase_ms[0] = run;
                                  phase_ms[1] = 10 * run;
                                });
  ASSERT_EQ(m.series.size(), 2u);
  EXPECT_EQ(m.series[0].name, "forward");
  EXPECT_EQ(m.series[0].samples_ms, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(m.series[1].name, "backward");
  EXPECT_EQ(m.series[1].samples_ms, (std::vector<double>{10, 20, 30}));
}

TEST(Protocol, WithABudgetStopsOnceTheMedianIsPrecise) {
  FakeWorkload work{.seconds = {0.01}};
  const Measurement m =
      measure({.warmups = 2, .time_budget_s = 100}, {"forward"}, work.iteration(), work.hooks());
  EXPECT_EQ(m.protocol.stopping_rule, StoppingRule::precision_reached);
  EXPECT_EQ(m.protocol.iterations, 6);  // the fewest samples for a 95 % interval
}

TEST(Protocol, PrecisionIsAskedOfEverySeries) {
  int run = 0;
  double clock_s = 0;
  const Measurement m = measure({.warmups = 0, .time_budget_s = 3}, {"steady", "noisy"},
                                [&](std::span<double> phase_ms) {
                                  clock_s += 0.01;
                                  phase_ms[0] = 1;
                                  phase_ms[1] = ++run % 2 ? 1 : 2;
                                },
                                {.now_s = [&] { return clock_s; }});
  EXPECT_EQ(m.protocol.stopping_rule, StoppingRule::budget_spent);
  EXPECT_NEAR(m.protocol.elapsed_s, 3, 0.02);
}

TEST(Protocol, SpendsTheBudgetOnANoisyWorkloadAndNoMore) {
  FakeWorkload work{.seconds = {0.1, 0.3}};
  const Measurement m =
      measure({.warmups = 1, .time_budget_s = 10}, {"forward"}, work.iteration(), work.hooks());
  EXPECT_EQ(m.protocol.stopping_rule, StoppingRule::budget_spent);
  EXPECT_GE(m.protocol.elapsed_s, 10);
  EXPECT_LT(m.protocol.elapsed_s, 10.31);
}

TEST(Protocol, TakesTheLeastIterationsEvenBeyondTheBudget) {
  FakeWorkload work{.seconds = {60}};
  const Measurement m = measure({.warmups = 10, .time_budget_s = 1, .min_iterations = 3},
                                {"forward"}, work.iteration(), work.hooks());
  EXPECT_EQ(m.protocol.warmups, 1);  // a single one exceeds the budget
  EXPECT_EQ(m.protocol.iterations, 3);
  EXPECT_EQ(m.protocol.stopping_rule, StoppingRule::budget_spent);
}

TEST(Protocol, ABudgetLeavesEnoughSamplesForAnInterval) {
  FakeWorkload work{.seconds = {60}};
  const Measurement m = measure({.time_budget_s = 1}, {"forward"}, work.iteration(), work.hooks());
  EXPECT_EQ(m.protocol.iterations, kMinIntervalSamples);
  EXPECT_TRUE(std::isfinite(relative_half_width(m.series[0].statistics)));
}

TEST(Protocol, WarmUpsOfAShortWorkloadLastUntilThreadsHaveTheirProcessors) {
  FakeWorkload work{.seconds = {1e-3}};
  const Measurement m = measure({.warmups = 3, .min_warmup_s = 0.05, .iterations = 4}, {"forward"},
                                work.iteration(), work.hooks());
  EXPECT_NEAR(m.protocol.warmups, 50, 1);
  EXPECT_EQ(m.protocol.iterations, 4);
  FakeWorkload cold{.seconds = {1e-3}};
  EXPECT_EQ(measure({.warmups = 0, .iterations = 4}, {"forward"}, cold.iteration(), cold.hooks())
                .protocol.warmups,
            0)
      << "no warm-up is no warm-up";
}

TEST(Protocol, CapsTheSamplesOfATinyWorkload) {
  FakeWorkload work{.seconds = {1e-6, 3e-6}};
  const Measurement m =
      measure({.warmups = 0, .time_budget_s = 1000}, {"forward"}, work.iteration(), work.hooks());
  EXPECT_EQ(m.protocol.stopping_rule, StoppingRule::sample_cap);
  EXPECT_EQ(m.protocol.iterations, kMaxIterations);
}

TEST(Protocol, AnInterruptionEndsItBeforeTheNextIteration) {
  FakeWorkload work{.seconds = {1}};
  const MeasureHooks hooks{.interrupted = [&] { return work.runs >= 5; },
                           .now_s = [&] { return work.clock_s; }};
  const Measurement m =
      measure({.warmups = 2, .iterations = 100}, {"forward"}, work.iteration(), hooks);
  EXPECT_EQ(work.runs, 5);
  EXPECT_TRUE(m.interrupted());
  EXPECT_EQ(m.series[0].samples_ms.size(), 3u);
}

TEST(Protocol, AnInterruptionDuringWarmUpLeavesNoSamples) {
  FakeWorkload work{.seconds = {1}};
  const Measurement m =
      measure({}, {"forward"}, work.iteration(), {.interrupted = [] { return true; }});
  EXPECT_EQ(work.runs, 0);
  EXPECT_TRUE(m.interrupted());
  EXPECT_TRUE(m.series[0].samples_ms.empty());
}

TEST(Protocol, ErrorsOfTheWorkloadPassThrough) {
  const auto oom = [](std::span<double>) { throw Error(ErrorKind::out_of_memory, "no room"); };
  EXPECT_ERROR(measure({}, {"forward"}, oom), ErrorKind::out_of_memory, "no room");
}

TEST(Protocol, APhaseLeftUntimedIsABug) {
  const auto forgets = [](std::span<double> phase_ms) { phase_ms[0] = 1; };
  EXPECT_ERROR(measure({}, {"forward", "backward"}, forgets), ErrorKind::internal, "backward");
}

TEST(Protocol, RefusesNumbersThatMakeNoSense) {
  const auto work = [](std::span<double> phase_ms) { phase_ms[0] = 1; };
  EXPECT_ERROR(measure({.warmups = -1}, {"f"}, work), ErrorKind::usage, "-1");
  EXPECT_ERROR(measure({.iterations = 0}, {"f"}, work), ErrorKind::usage, "iterations is 0");
  EXPECT_ERROR(measure({.iterations = 1 << 30}, {"f"}, work), ErrorKind::usage, "20000");
  EXPECT_ERROR(measure({.time_budget_s = -2}, {"f"}, work), ErrorKind::usage, "budget is -2");
  EXPECT_ERROR(measure({.time_budget_s = NAN}, {"f"}, work), ErrorKind::usage, "nan");
  EXPECT_ERROR(measure({.target_precision = 0}, {"f"}, work), ErrorKind::usage, "precision is 0");
}

TEST(Protocol, StoppingRulesHaveNamesBothWays) {
  for (const StoppingRule rule :
       {StoppingRule::iterations_done, StoppingRule::precision_reached, StoppingRule::budget_spent,
        StoppingRule::sample_cap, StoppingRule::interrupted})
    EXPECT_EQ(kStoppingRules.find(kStoppingRules[rule]), rule);
  EXPECT_EQ(kStoppingRules.find("bored"), std::nullopt);
}

}  // namespace
}  // namespace ridgeline
