#include "measure/disturbance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

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

TEST(DisturbanceWatch, OwnWorkIsNotADisturbance) {
  DisturbanceWatch watch;
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) {
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const auto found = watch.row_done();
  stop = true;
  busy.join();
  ASSERT_TRUE(found);
  EXPECT_GE(found->window_s, 0.25);
  EXPECT_GE(found->processors, 1);
  // Whatever else this machine does, what this process did is not in it.
  EXPECT_LE(found->other_cores, found->processors - 0.5);
}

TEST(DisturbanceWatch, WithoutProcThereAreNoFacts) {
  const TempDir empty;
  DisturbanceWatch watch(empty.path());
  EXPECT_FALSE(watch.row_done());
}

}  // namespace
}  // namespace ridgeline
