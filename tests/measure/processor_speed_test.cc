#include "measure/processor_speed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/processors.h"

namespace ridgeline {
namespace {

TEST(ProcessorSpeed, EveryThreadWorksAndAllOfThemAtOnce) {
  for (const int threads : {1, 2, 5}) {
    std::mutex mutex;
    std::multiset<int> called;
    std::atomic<int> inside = 0, most = 0;
    const ProcessorSpeed speed = processor_speed(threads, [&](const auto& work) {
      std::vector<std::jthread> started;
      for (int thread = 0; thread < threads; ++thread)
        started.emplace_back([&, thread] {
          {
            const std::lock_guard lock(mutex);
            called.insert(thread);
            most = std::max<int>(most, ++inside);
          }
          work(thread);
          --inside;
        });
    });
    EXPECT_EQ(speed.threads, threads);
    EXPECT_EQ(most, threads) << "nobody leaves before all are there";
    for (int thread = 0; thread < threads; ++thread)
      EXPECT_EQ(called.count(thread) % 2, 0u) << "arithmetic and memory, perhaps twice";
    for (const double rate : {speed.alone_gflops, speed.together_gflops, speed.memory_gb_per_s})
      EXPECT_TRUE(rate > 0 && std::isfinite(rate)) << rate;
  }
}

// Two threads on one processor take twice as long as on one each, whatever else runs.
TEST(ProcessorSpeed, ThreadsThatTakeTurnsOnOneProcessorAreSeen) {
  const std::vector<int> processors = allowed_processors();
  ASSERT_FALSE(processors.empty());
  const OnProcessors here({processors.front()});
  int calls = 0;
  const ProcessorSpeed speed = processor_speed(2, [&](const auto& work) {
    ++calls;
    std::jthread other(work, 1);  // inherits the processor of its parent
    work(0);
  });
  EXPECT_LT(speed.together_gflops * kSpeedApart, speed.alone_gflops);
  EXPECT_EQ(calls, 4) << "looked at again, as it might pass";
}

// Independent chains fill the units of a core, so that two threads of one core slow each other
// down; a single dependent chain would leave most units idle and hide that.
TEST(ProcessorSpeed, TheArithmeticIsBoundByThroughput) {
  const volatile float factor = 0.999F, term = 0.001F;
  double chained = 0, of_one_number = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    constexpr int kSteps = 20'000;
    float value = factor;
    const int64_t begin = monotonic_ns();
    for (int step = 0; step < kSteps; ++step) {
      value = value * factor + term;
      asm volatile("" : "+x"(value));
    }
    chained = std::max(chained, 2.0 * kSteps / static_cast<double>(monotonic_ns() - begin));
    // The probe computes four numbers at a time.
    of_one_number = std::max(of_one_number, processor_speed(1).alone_gflops / 4);
  }
  EXPECT_GT(of_one_number, 4 * chained);
}

ProcessorSpeed some_speed(std::mt19937& random) {
  std::uniform_real_distribution<double> log_rate(-3, 5);
  return {.threads = 2,
          .alone_gflops = std::exp(log_rate(random)),
          .together_gflops = std::exp(log_rate(random)),
          .memory_gb_per_s = std::exp(log_rate(random))};
}

TEST(SpeedGap, IsThatOfTheRateThatDiffersMostWhicheverSideIsNamedFirst) {
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {
    const ProcessorSpeed a = some_speed(random), b = some_speed(random);
    const SpeedGap forth = speed_gap(a, b), back = speed_gap(b, a);
    EXPECT_NEAR(forth.factor / back.factor, 1, 1e-12);
    EXPECT_NE(forth.second_slower, back.second_slower);
    EXPECT_EQ(forth.what, back.what);
    EXPECT_EQ(speed_gap(a, a).factor, 1);
    const auto factor = [&](auto rate) { return std::max(a.*rate / b.*rate, b.*rate / a.*rate); };
    double widest =
        std::max(factor(&ProcessorSpeed::alone_gflops), factor(&ProcessorSpeed::together_gflops));
    if (const double memory = factor(&ProcessorSpeed::memory_gb_per_s); memory > 1.5)
      widest = std::max(widest, memory);
    EXPECT_NEAR(forth.factor, widest, 1e-9 * widest);
    // The slower of two is never faster than either, and medians lie between the extremes.
    const ProcessorSpeed slower = slower_rates(a, b);
    for (const ProcessorSpeed& each : {a, b}) {
      const SpeedGap gap = speed_gap(each, slower);
      EXPECT_TRUE(gap.factor == 1 || gap.second_slower);
    }
    const ProcessorSpeed c = some_speed(random);
    const ProcessorSpeed middle = median_rates(std::vector{a, b, c});
    EXPECT_GE(middle.alone_gflops, std::min({a.alone_gflops, b.alone_gflops, c.alone_gflops}));
    EXPECT_LE(middle.alone_gflops, std::max({a.alone_gflops, b.alone_gflops, c.alone_gflops}));
  }
}

TEST(SpeedGap, NamesWhatWasSlower) {
  const ProcessorSpeed free{
      .threads = 2, .alone_gflops = 31, .together_gflops = 31, .memory_gb_per_s = 8};
  ProcessorSpeed shared = free;
  shared.together_gflops /= 1.9;
  const SpeedGap gap = speed_gap(free, shared);
  EXPECT_TRUE(gap.is_apart() && gap.second_slower);
  EXPECT_EQ(gap.text(), "threads together computed 1.9x slower");
  ProcessorSpeed beside = free;
  beside.memory_gb_per_s /= 1.4;
  EXPECT_FALSE(speed_gap(free, beside).is_apart()) << "neighbours move it from look to look";
  beside.memory_gb_per_s = free.memory_gb_per_s * 1.6;
  EXPECT_EQ(speed_gap(free, beside).text(), "memory was read 1.6x slower");
  EXPECT_FALSE(speed_gap(free, beside).second_slower);
}

// Rates from a file may be any number.
TEST(SpeedGap, ARateThatIsNoneIsNeverTheSame) {
  const ProcessorSpeed good{
      .threads = 2, .alone_gflops = 31, .together_gflops = 31, .memory_gb_per_s = 8};
  for (const double bad : {0.0, -1.0, std::nan(""), double{INFINITY}}) {
    ProcessorSpeed other = good;
    other.memory_gb_per_s = bad;
    EXPECT_TRUE(speed_gap(good, other).is_apart()) << bad;
    EXPECT_TRUE(speed_gap(other, good).is_apart()) << bad;
    EXPECT_TRUE(speed_gap(other, other).is_apart()) << bad;
  }
}

}  // namespace
}  // namespace ridgeline
