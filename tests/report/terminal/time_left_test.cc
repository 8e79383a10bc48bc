#include "report/terminal/time_left.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace ridgeline {
namespace {

// Expected and true times of steps.
struct Part {
  std::vector<double> expected_s;
  std::vector<double> true_s;
};

// The estimate and the true time left, once per second.
struct Reading {
  double now_s, estimate_s, left_s;
};

std::vector<Reading> watch(const std::vector<Part>& parts) {
  TimeLeft left(TimeLeft::Unit::seconds);
  double total_s = 0;
  for (const Part& part : parts) {
    left.add_part(part.expected_s);
    for (const double each : part.true_s) total_s += each;
  }
  std::vector<Reading> readings;
  double now_s = 0;
  for (size_t part = 0; part < parts.size(); ++part)
    for (size_t step = 0; step < parts[part].true_s.size(); ++step) {
      left.begin({part, step}, now_s);
      const double end_s = now_s + parts[part].true_s[step];
      for (double at_s = now_s; at_s < end_s; at_s += 1)
        if (const auto estimate = left.seconds(at_s))
          readings.push_back({at_s, *estimate, total_s - at_s});
      now_s = end_s;
    }
  return readings;
}

double total(const std::vector<Part>& parts) {
  double sum = 0;
  for (const Part& part : parts)
    for (const double each : part.true_s) sum += each;
  return sum;
}

// Parts of many kinds: some rows take a fixed budget, some grow with the square of a length. Their
// times are off by a factor per part, one of the machine, and a random one per row.
std::vector<Part> whole_study(unsigned seed, double machine) {
  std::mt19937 random(seed);
  const auto between = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  std::vector<Part> parts = {{std::vector<double>(17, 1.5), {}}, {std::vector<double>(16, 0.4), {}},
                             {std::vector<double>(4, 0.6), {}},  {{14, 14}, {}},
                             {std::vector<double>(4, 0.3), {}},  {}};
  for (const double each : {0.3, 0.3, 1.0, 1.0, 5.0, 3.0, 0.0, 30.0, 25.0, 2.0, 2.0, 10.0, 6.0})
    parts.back().expected_s.push_back(each);
  for (Part& part : parts) {
    const double study = machine * between(0.75, 1.35);
    for (const double each : part.expected_s)
      part.true_s.push_back(each * study * between(0.75, 1.35));
  }
  return parts;
}

TEST(TimeLeft, IsWithinAFactorOfTwoAfterTheFirstThird) {
  for (const double machine : {0.3, 1.0, 3.0})
    for (unsigned seed = 0; seed < 50; ++seed) {
      const std::vector<Part> parts = whole_study(seed, machine);
      const double all_s = total(parts);
      for (const Reading& reading : watch(parts)) {
        if (reading.now_s < all_s / 3) continue;
        const double near_the_end = 0.03 * all_s;  // there a second is a large factor
        EXPECT_LE(reading.estimate_s, 2 * reading.left_s + near_the_end)
            << "seed " << seed << ", machine " << machine << ", at " << reading.now_s;
        EXPECT_GE(reading.estimate_s, reading.left_s / 2 - near_the_end)
            << "seed " << seed << ", machine " << machine << ", at " << reading.now_s;
      }
    }
}

TEST(TimeLeft, DoesNotJump) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::vector<Part> parts = whole_study(seed, 2);
    const std::vector<Reading> readings = watch(parts);
    ASSERT_FALSE(readings.empty());
    for (size_t i = 1; i < readings.size(); ++i) {
      const Reading &before = readings[i - 1], &now = readings[i];
      const double counted_down = before.estimate_s - (now.now_s - before.now_s);
      const double jump = std::abs(now.estimate_s - counted_down);
      EXPECT_LE(jump, std::max(3.0, 0.2 * before.estimate_s))
          << "seed " << seed << " at " << now.now_s;
    }
  }
}

TEST(TimeLeft, ExpectedSecondsThatAreRightNeedNoLearning) {
  const std::vector<double> rows = {1, 2, 30, 4, 60};
  for (const Reading& reading : watch({{rows, rows}}))
    EXPECT_NEAR(reading.estimate_s, reading.left_s, 1e-6) << reading.now_s;
}

TEST(TimeLeft, AStepThatIsOverdueLetsTheOthersTakeLonger) {
  TimeLeft left(TimeLeft::Unit::seconds);
  left.add_part({1, 1, 10, 10});
  left.begin({0, 0}, 0);
  left.begin({0, 1}, 1);
  left.begin({0, 2}, 2);
  const double before = left.seconds(2).value();
  double later = 0;
  for (int at = 3; at <= 42; ++at) later = left.seconds(at).value();
  EXPECT_NEAR(before, 20, 1);
  EXPECT_GT(later, 15) << "four times as long as expected, so the last one will be, too";
}

TEST(TimeLeft, NothingIsKnownBeforeAStepHasEnded) {
  TimeLeft left(TimeLeft::Unit::any);
  left.add_part({1e12, 3e12, 16e12});
  left.begin({0, 0}, 0);
  EXPECT_FALSE(left.seconds(5));
  left.begin({0, 2}, 10);  // the second never began, and counts as ended
  EXPECT_NEAR(left.seconds(10).value(), 40, 1e-9);
}

TEST(TimeLeft, StepsThatAreSkippedOrGoOnCountOnce) {
  TimeLeft left(TimeLeft::Unit::any);
  left.add_part({1000, 1, 1});
  left.skip({0, 0});
  left.begin({0, 1}, 0);
  left.begin({0, 1}, 3);  // is running already
  left.begin({0, 2}, 5);
  EXPECT_NEAR(left.seconds(5).value(), 5, 1e-9);
  EXPECT_EQ(left.steps(), 3u);
  EXPECT_EQ(left.number({0, 2}), 3u);
}

TEST(TimeLeft, TheShareThatIsDoneOnlyGrows) {
  const std::vector<Part> parts = whole_study(7, 2);
  TimeLeft left(TimeLeft::Unit::seconds);
  for (const Part& part : parts) left.add_part(part.expected_s);
  double now_s = 0, last = 0;
  for (size_t part = 0; part < parts.size(); ++part)
    for (size_t step = 0; step < parts[part].true_s.size(); ++step) {
      left.begin({part, step}, now_s);
      const double share = left.share_done(now_s);
      EXPECT_GE(share, last);
      EXPECT_LE(share, 1);
      last = share;
      now_s += parts[part].true_s[step];
    }
  EXPECT_GT(last, 0.8);
}

TEST(TimeLeft, APartMayTurnOutToHaveOtherSteps) {
  TimeLeft left(TimeLeft::Unit::seconds);
  left.add_part({1, 1});
  left.add_part({1, 1});
  left.begin({0, 0}, 0);
  left.begin({0, 1}, 1);
  left.replace_part(1, {5, 5, 5});
  EXPECT_EQ(left.steps(), 5u);
  EXPECT_EQ(left.number({1, 2}), 5u);
  EXPECT_NEAR(left.seconds(1).value(), 16, 0.1);
}

}  // namespace
}  // namespace ridgeline
