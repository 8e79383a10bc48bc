// How often verdicts from rounds are wrong, and how often they find 5 %, under synthetic noise.
#include "measure/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "measure/compare.h"
#include "measure/rank_interval.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

// The noise that a machine adds to a workload of one unit of time.
struct Noise {
  const char* name;
  double jitter = 0.01;     // of each sample, only upwards
  double tail = 0;          // probability of a sample with a Pareto tail of infinite variance
  double drift = 0;         // random step of the level that both sides share
  double burst = 0;         // probability that other work begins, which takes up to 2/3 of the time
  double neighbour = 0;     // slowdown while a neighbour shares the core, now and then
  double layout = 0;        // of a process, constant during its lifetime
  double advantage = 0;     // of the side that starts first
  bool starts_anew = true;  // false: the same two processes in all rounds
};

constexpr Noise kNoises[] = {
    {.name = "white"},
    {.name = "heavy tails", .tail = 0.2},
    {.name = "drift", .drift = 0.01},
    {.name = "bursts", .burst = 0.05},
    {.name = "a neighbour on the core", .neighbour = 0.3},
    {.name = "a lucky process", .layout = 0.01},
    {.name = "all of it",
     .tail = 0.05,
     .drift = 0.005,
     .burst = 0.02,
     .neighbour = 0.3,
     .layout = 0.005},
};

class Machine {
 public:
  Machine(const Noise& noise, unsigned seed) : noise_(noise), random_(seed) {}

  bool coin() { return uniform_(random_) < 0.5; }
  double layout() { return noise_.layout * normal_(random_); }

  double sample(double ms) {
    // The level reverts to its mean over hundreds of samples.
    drift_ = 0.995 * drift_ + noise_.drift * normal_(random_);
    if (uniform_(random_) < noise_.burst) busy_ = 8;
    if (uniform_(random_) < 0.05) shared_ = !shared_;
    double log_time = drift_ + noise_.jitter * std::abs(normal_(random_));
    if (shared_) log_time += std::log1p(noise_.neighbour);
    if (busy_ > 0 && busy_--) log_time += std::log1p(2 * uniform_(random_));
    if (uniform_(random_) < noise_.tail) log_time += 0.02 / std::sqrt(uniform_(random_)) - 0.02;
    return ms * std::exp(log_time);
  }

 private:
  Noise noise_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double drift_ = 0;
  int busy_ = 0;
  bool shared_ = false;
};

// Measures as interleave() does: 12 quads per round, in turns of two samples.
PairedPhase measured(const Noise& noise, double ratio, unsigned seed) {
  Machine machine(noise, seed);
  std::vector<PairedRow> rows = {{attention_record({}), attention_record({}), {}}};
  double layout[2] = {machine.layout(), machine.layout()};
  take_rounds(
      rows,
      {.settled =
           [](const auto& all) { return settled_rows(all, {}, [](const auto&) { return true; }); },
       .now_s = [] { return 0; }},
      [&](int, const std::vector<bool>&, std::vector<PairedRow>& all) {
        if (noise.starts_anew)
          for (double& each : layout) each = machine.layout();
        const bool base_first = machine.coin();
        std::vector<Quad> quads(12);
        for (Quad& quad : quads)
          for (const bool first : {true, false, false, true}) {
            const bool is_base = first == base_first;
            const double ms =
                (is_base ? 1 : ratio) * std::exp(layout[is_base] - (first ? noise.advantage : 0));
            for (int i = 0; i < 2; ++i)
              (is_base ? quad.base_ms : quad.new_ms).push_back(machine.sample(ms));
          }
        all[0].phase("forward").add_round(quads);
        return true;
      });
  return rows[0].phases.at(0);
}

struct Tally {
  int same = 0, faster = 0, slower = 0, unclear = 0;
  double rounds = 0;  // on average
};

Tally tally(const Noise& noise, double ratio, unsigned tries) {
  Tally out;
  for (unsigned i = 0; i < tries; ++i) {
    const PairedPhase phase = measured(noise, ratio, i + 1);
    std::vector<PairedRow> rows = {{attention_record({}), attention_record({}), {phase}}};
    const Verdict verdict = *compare_interleaved(rows, {}).rows.at(0).verdict;
    (verdict == Verdict::same     ? out.same
     : verdict == Verdict::faster ? out.faster
     : verdict == Verdict::slower ? out.slower
                                  : out.unclear)++;
    out.rounds += static_cast<double>(phase.log_ratios.size()) / tries;
  }
  return out;
}

class UnderNoise : public ::testing::TestWithParam<Noise> {};

TEST_P(UnderNoise, NothingIsNotCalledADifferenceAndFivePercentIs) {
  constexpr unsigned kTries = 300;
  const Tally nothing = tally(GetParam(), 1, kTries);
  EXPECT_LE(nothing.faster + nothing.slower, 0.01 * kTries);
  EXPECT_GE(nothing.same, 0.7 * kTries) << nothing.rounds;  // UNCLEAR for everything is no answer
  const Tally slower = tally(GetParam(), 1.05, kTries);
  EXPECT_GE(slower.slower, 0.97 * kTries) << slower.rounds;
  const Tally faster = tally(GetParam(), 1 / 1.05, kTries);
  EXPECT_GE(faster.faster, 0.97 * kTries) << faster.rounds;
}

INSTANTIATE_TEST_SUITE_P(Rounds, UnderNoise, ::testing::ValuesIn(kNoises), [](const auto& each) {
  std::string name = each.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

// SLOWER is wrong most often at the edge of the band: there in at most half of the allowed error.
TEST(Rounds, TheEdgeOfTheBandIsHardlyEverCrossed) {
  constexpr unsigned kTries = 500;
  const Tally edge = tally({.name = "edge", .layout = 0.01}, 1.01, kTries);
  EXPECT_LE(edge.slower, 0.005 * kTries + 3 * std::sqrt(0.005 * kTries));
  EXPECT_EQ(edge.faster, 0);
}

// Why both sides are restarted: without that, the luck of a process looks like a difference.
TEST(Rounds, WithoutFreshStartsALuckyProcessIsADifference) {
  constexpr unsigned kTries = 100;
  const Tally stuck = tally({.name = "stuck", .layout = 0.01, .starts_anew = false}, 1, kTries);
  EXPECT_GE(stuck.faster + stuck.slower, 0.1 * kTries);
}

// Why the side that starts is random: an advantage of the first must not favour one side.
TEST(Rounds, AnAdvantageOfTheFirstIsNoSides) {
  constexpr unsigned kTries = 300;
  const Tally unfair = tally({.name = "unfair", .drift = 0.01, .advantage = 0.1}, 1, kTries);
  EXPECT_LE(unfair.faster + unfair.slower, 0.01 * kTries);
}

// Counts trials in which any look's interval misses the truth, if each look uses the whole allowed
// error and if the looks share it.
TEST(Rounds, LooksShareTheErrorThatIsAllowed) {
  std::mt19937 random(42);
  std::normal_distribution<double> normal;
  constexpr int kTries = 2000;
  int shared = 0, each = 0;
  for (int i = 0; i < kTries; ++i) {
    std::vector<double> figures;
    bool missed_shared = false, missed_each = false;
    while (figures.size() < 40) {
      figures.push_back(normal(random));
      const int rounds = static_cast<int>(figures.size());
      if (!is_look(rounds) && rounds != 40) continue;
      const auto misses = [&](double confidence) {
        const Shift shift = paired_shift(figures, confidence);
        return shift.low > 0 || shift.high < 0;
      };
      missed_shared = missed_shared || misses(confidence_for(1, kLooks));
      missed_each = missed_each || misses(confidence_for(1));
    }
    shared += missed_shared;
    each += missed_each;
  }
  EXPECT_LE(shared, 0.01 * kTries);
  EXPECT_GE(shared, 0.001 * kTries);  // an unbounded interval would be useless
  EXPECT_GE(each, 0.015 * kTries);
}

// Simulates rounds, and counts how often each row is measured.
struct Script {
  int rounds_run = 0;
  std::vector<int> measured = {0, 0};
  double now = 0;

  MeasureRound measure(double seconds) {
    return [this, seconds](int round, const std::vector<bool>& settled, std::vector<PairedRow>&) {
      EXPECT_EQ(round, rounds_run++);
      for (size_t row = 0; row < settled.size(); ++row) measured[row] += !settled[row];
      now += seconds;
      return true;
    };
  }
};

TEST(TakeRounds, RowsThatAreSettledAreLeftAloneAndTheLastOneEndsIt) {
  std::vector<PairedRow> rows(2);
  Script script;
  int looks = 0;
  const auto settled = [&](const auto&) { return std::vector<bool>{++looks >= 1, looks >= 3}; };
  EXPECT_TRUE(take_rounds(rows, {.settled = settled, .now_s = [&] { return script.now; }},
                          script.measure(0)));
  EXPECT_EQ(looks, 3);
  EXPECT_EQ(script.measured, (std::vector<int>{11, 20}));
}

TEST(TakeRounds, TheBudgetEndsItAfterTheFirstLookAndNotBefore) {
  std::vector<PairedRow> rows(2);
  const auto now = [](Script& script) { return [&script] { return script.now; }; };
  Script slow, quick, endless;
  take_rounds(rows, {.time_budget_s = 10, .now_s = now(slow)}, slow.measure(100));
  EXPECT_EQ(slow.rounds_run, 11);
  take_rounds(rows, {.time_budget_s = 10, .now_s = now(quick)}, quick.measure(1));
  EXPECT_EQ(quick.rounds_run, 20);  // the budget is per row, and there are two
  take_rounds(rows, {.rounds = 40, .time_budget_s = 10, .now_s = now(endless)},
              endless.measure(0.01));
  EXPECT_EQ(endless.rounds_run, 40);
}

// All rounds favour one side: no data are clearer.
TEST(Rounds, TheFewestGiveEachLineAnIntervalAndTheFirstLookHasThem) {
  const auto is_bounded = [](int rounds, size_t lines) {
    const std::vector<double> ratios(static_cast<size_t>(rounds), 0.1);
    return std::isfinite(paired_shift(ratios, confidence_for(lines, kLooks)).low);
  };
  for (const size_t lines : {1u, 5u, 6u, 11u, 12u, 100u, 1000u}) {
    const int rounds = fewest_rounds(lines);
    EXPECT_TRUE(is_bounded(rounds, lines)) << lines;
    EXPECT_FALSE(is_bounded(rounds - 1, lines)) << lines;
  }
  EXPECT_EQ(fewest_rounds(1), kFirstLook);
  EXPECT_TRUE(is_look(kFirstLook));
}

TEST(TakeRounds, AnInterruptedRoundEndsIt) {
  std::vector<PairedRow> rows(1);
  int rounds = 0;
  EXPECT_FALSE(take_rounds(rows, {}, [&](int, const auto&, auto&) { return ++rounds < 3; }));
  EXPECT_EQ(rounds, 3);
}

TEST(PairedPhase, ASideSpeaksByItsQuickestSampleAndARoundByTheMedianOfItsQuads) {
  PairedPhase phase;
  const Quad twice{.base_ms = {1, 7}, .new_ms = {9, 2}},
      outlier{.base_ms = {1, 1}, .new_ms = {90, 80}};
  phase.add_round(std::vector<Quad>{twice, outlier, twice});
  ASSERT_EQ(phase.log_ratios.size(), 1u);
  EXPECT_DOUBLE_EQ(phase.log_ratios[0], std::log(2));
  EXPECT_EQ(phase.base_ms, (std::vector<double>{1, 7, 1, 1, 1, 7}));
  // Uses the first decile of many samples, so that one that is impossibly short does not count.
  Quad many{.base_ms = std::vector<double>(20, 3), .new_ms = std::vector<double>(20, 6)};
  many.base_ms[4] = 1e-9;
  phase.add_round(std::vector<Quad>{many});
  EXPECT_DOUBLE_EQ(phase.log_ratios[1], std::log(2));
}

}  // namespace
}  // namespace ridgeline
