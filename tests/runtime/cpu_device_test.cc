#include "runtime/cpu_device.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace ridgeline {
namespace {

TEST(CpuDevice, WorksThatFollowEachOtherAreTimedApartAndInOrder) {
  using namespace std::chrono_literals;
  CpuDevice device({.threads = 1});
  std::string order;
  const std::vector<std::function<void()>> works = {[&] { order += 'a'; },
                                                    [&] {
                                                      order += 'b';
                                                      std::this_thread::sleep_for(20ms);
                                                    }};
  const std::vector<double> parts = device.time_each_ms(works);
  EXPECT_EQ(order, "ab");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_GE(parts[0], 0);
  EXPECT_GE(parts[1], 20);
  EXPECT_LT(parts[0], parts[1]) << "the sleep is the second one's";
}

}  // namespace
}  // namespace ridgeline
