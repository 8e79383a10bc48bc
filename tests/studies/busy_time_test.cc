#include "studies/busy_time.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

Record measured(double forward_ms) {
  Record record;
  record.series = {series_of("forward", {forward_ms, forward_ms, forward_ms})};
  return record;
}

BusyPhase forward_of(std::vector<std::optional<double>> passes) {
  return {"forward",
          [passes, next = size_t{0}]() mutable { return passes[next++ % passes.size()]; }};
}

TEST(BusyTime, IsTheMedianOfThePassesThatTell) {
  Record record = measured(10);
  add_busy_times({forward_of({std::nullopt, 4.0, 5.0, 9.0})}, record);
  EXPECT_EQ((*record.metrics)["forward"]["busy_ms"], 5.0);
  EXPECT_EQ((*record.metrics)["forward"]["host_bound"], true);
  EXPECT_HAS((*record.metrics)["busy_is"].get<std::string>(), "80 %");
}

TEST(BusyTime, NearTheWallTimeIsNotHostBound) {
  Record record = measured(10);
  record.metrics = Json{{"forward", {{"host_us", 3}}}};
  add_busy_times({forward_of({9.0})}, record);
  EXPECT_EQ((*record.metrics)["forward"]["host_bound"], false);
  EXPECT_EQ((*record.metrics)["forward"]["host_us"], 3) << "other metrics stay";
}

TEST(BusyTime, IsLeftOutWhereTheDeviceDoesNotTell) {
  Record record = measured(10);
  add_busy_times({forward_of({std::nullopt})}, record);
  EXPECT_FALSE(record.metrics);
}

}  // namespace
}  // namespace ridgeline
