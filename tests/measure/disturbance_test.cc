#include "measure/disturbance.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

TEST(Disturbance, AQuietMachineIsOneWhoseProcessorsOthersLeaveAlone) {
  const Disturbance quiet{.window_s = 2, .processors = 4, .other_cores = 0.1};
  EXPECT_TRUE(quiet.quiet());
  EXPECT_EQ(disturbance_text(quiet), "");
  const Disturbance busy{.window_s = 2, .processors = 4, .other_cores = 1.3};
  EXPECT_FALSE(busy.quiet());
  EXPECT_EQ(disturbance_text(busy), "other processes used 1.3 of 4 processors");
  const Disturbance stolen{.window_s = 2, .processors = 4, .stolen_cores = 0.5};
  EXPECT_EQ(disturbance_text(stolen), "other virtual machines took 0.5 of 4 processors");
}

TEST(Disturbance, ATickOfTheKernelsClockIsNotOtherWork) {
  const Disturbance short_row{.window_s = 0.02, .processors = 2, .other_cores = 0.5};
  EXPECT_TRUE(short_row.quiet()) << "one tick of 10 ms";
}

double own_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

TEST(DisturbanceWatch, OwnWorkIsNotADisturbance) {
  DisturbanceWatch watch;
  const double before = own_seconds();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (std::chrono::steady_clock::now() < end) {
  }
  const auto found = watch.row_done();
  const double own = own_seconds() - before;
  ASSERT_TRUE(found);
  EXPECT_GE(found->window_s, 0.25);
  EXPECT_GE(found->processors, 1);
  // Time used by this process does not count as time of other processes, whatever else runs.
  EXPECT_LE(found->other_cores + own / found->window_s, found->processors + 0.15);
}

TEST(DisturbanceWatch, WithoutProcThereAreNoFacts) {
  const TempDir empty;
  DisturbanceWatch watch(empty.path());
  EXPECT_FALSE(watch.row_done());
}

}  // namespace
}  // namespace ridgeline
