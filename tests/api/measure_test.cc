// The harness behind the C interface: timings, turns, records, and what it refuses.
#include <gtest/gtest.h>
#include <ridgeline/measure.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "measure/read_results.h"
#include "measure/record.h"
#include "measure/statistics.h"
#include "measure/test_support.h"

namespace ridgeline::measure_test {
namespace {

// A clock that counts: 1 ms, 2 ms, ... times a factor.
struct Counter {
  double factor = 1;
  int calls = 0;
};

double count_up(void* user) {
  auto& counter = *static_cast<Counter*>(user);
  return counter.factor * ++counter.calls;
}

double no_time(void*) {
  return std::numeric_limits<double>::quiet_NaN();
}

rl_measure_params params_of(const rl_callable* callables, size_t count) {
  rl_measure_params params = {};
  params.size = sizeof params;
  params.callables = callables;
  params.callable_count = count;
  params.warmups = 2;
  params.iterations = 9;
  return params;
}

TEST(MeasureC, GivesTheStatisticsOfItsSamples) {
  Counter counter;
  rl_callable callable = {};
  callable.name = "count";
  callable.flops = 1e6;
  callable.time_ms = count_up;
  callable.user = &counter;
  std::vector<double> samples(5);  // less than there are
  rl_timing timing = {};
  timing.size = sizeof timing;
  timing.samples_ms = samples.data();
  timing.sample_capacity = samples.size();
  const rl_measure_params params = params_of(&callable, 1);
  ASSERT_EQ(rl_measure(&params, &timing), RL_OK) << rl_last_error();
  EXPECT_EQ(counter.calls, 11) << "warm-ups and samples";
  std::vector<double> expected;
  for (int i = 3; i <= 11; ++i) expected.push_back(i);
  const Statistics s = summarize(expected);
  EXPECT_EQ(timing.count, 9);
  EXPECT_EQ(timing.median_ms, s.median_ms);
  EXPECT_EQ(timing.median_low_ms, s.median_low_ms);
  EXPECT_EQ(timing.median_high_ms, s.median_high_ms);
  EXPECT_EQ(timing.std_ms, s.std_ms);
  EXPECT_EQ(timing.p95_ms, s.p95_ms);
  EXPECT_DOUBLE_EQ(timing.flops_per_s, 1e6 / 7e-3);
  EXPECT_EQ(timing.bytes_per_s, 0);
  EXPECT_EQ(samples, (std::vector<double>{3, 4, 5, 6, 7}));
}

TEST(MeasureC, TakesTurnsAndWritesARecordOfEach) {
  const TempDir directory;
  const std::string path = directory / "own.jsonl";
  Counter one, three{.factor = 3};
  const char* names[] = {"n"};
  const int64_t sizes[] = {7};
  rl_callable callables[2] = {};
  for (rl_callable& each : callables) {
    each.name = "count";
    each.time_ms = count_up;
    each.size_names = names;
    each.sizes = sizes;
    each.size_count = 1;
  }
  callables[0].user = &one;
  callables[1].implementation = "thrice";
  callables[1].user = &three;
  rl_timing timings[2] = {};
  for (rl_timing& timing : timings) timing.size = sizeof timing;
  rl_measure_params params = params_of(callables, 2);
  params.results = path.c_str();
  ASSERT_EQ(rl_measure(&params, timings), RL_OK) << rl_last_error();
  EXPECT_DOUBLE_EQ(timings[0].ratio, 1);
  EXPECT_DOUBLE_EQ(timings[1].ratio, 3);
  const std::vector<Record> records = read_results(path).records;
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].implementation, "default");
  EXPECT_EQ(records[1].implementation, "thrice");
  EXPECT_EQ(records[1].workload["n"], 7);
}

TEST(MeasureC, RefusesWhatItCannotMeasure) {
  const auto refused = [](const char* part, const auto& change) {
    Counter counter;
    rl_callable callable = {};
    callable.name = "count";
    callable.time_ms = count_up;
    callable.user = &counter;
    rl_timing timing = {};
    timing.size = sizeof timing;
    rl_measure_params params = params_of(&callable, 1);
    change(params, callable, timing);
    EXPECT_NE(rl_measure(&params, &timing), RL_OK) << part;
    EXPECT_HAS(rl_last_error(), part);
  };
  using P = rl_measure_params;
  using C = rl_callable;
  using T = rl_timing;
  refused("rl_measure_params.size is 8", [](P& p, C&, T&) { p.size = 8; });
  refused("nothing to measure", [](P& p, C&, T&) { p.callable_count = 0; });
  refused("timings[0].size is 0", [](P&, C&, T& t) { t.size = 0; });
  refused("time_ms is null", [](P&, C& c, T&) { c.time_ms = nullptr; });
  refused("name is empty", [](P&, C& c, T&) { c.name = ""; });
  refused("size_count is 2", [](P&, C& c, T&) { c.size_count = 2; });
  refused("took nan ms", [](P&, C& c, T&) { c.time_ms = no_time; });
  refused("the number of iterations is 0", [](P& p, C&, T&) { p.iterations = 0; });
  refused("the number of warm-ups is -1", [](P& p, C&, T&) { p.warmups = -1; });
  EXPECT_EQ(rl_measure(nullptr, nullptr), RL_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace ridgeline::measure_test
