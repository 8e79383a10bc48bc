#include "profile/cpu_events.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"

namespace ridgeline {
namespace {

CpuCounts counted(ThreadPool& pool, const std::function<void(int64_t, int)>& work) {
  CpuEvents events(pool);
  events.start();
  pool.for_each(pool.threads(), work);
  return events.stop();
}

void spin(int64_t ns) {
  for (const int64_t until = monotonic_ns() + ns; monotonic_ns() < until;) {
  }
}

TEST(CpuEvents, EachIsCountedOrSaysWhyNot) {
  ThreadPool pool(2);
  const CpuCounts seen = counted(pool, [](int64_t, int) { spin(5'000'000); });
  for (const char* name : {"task_clock_ns", "page_faults", "context_switches", "cpu_migrations",
                           "cycles", "instructions", "cache_misses"}) {
    const CpuCount* count = seen.find(name);
    ASSERT_TRUE(count) << name;
    EXPECT_EQ(count->total.has_value(), count->why_not.empty()) << name << ": " << count->why_not;
    if (!count->by_thread.empty()) {
      EXPECT_EQ(count->by_thread.size(), 2u) << name;
    }
  }
  for (const char* name : {"task_clock_ns", "page_faults", "context_switches"})
    EXPECT_TRUE(seen.find(name)->total) << name << " can be had everywhere";
  EXPECT_GT(*seen.find("task_clock_ns")->total, 2'000'000);
  EXPECT_GE(seen.forced_switches, 0);
}

TEST(CpuEvents, CountsWhatHappensBetweenStartAndStopAlone) {
  ThreadPool pool(1);
  constexpr size_t kPages = 300, kPageBytes = 4096;
  const CpuCounts quiet = counted(pool, [](int64_t, int) {});
  const CpuCounts touching = counted(pool, [](int64_t, int) {
    std::vector<char> memory(kPages * kPageBytes);  // zeroed: every page is touched
    EXPECT_EQ(memory.back(), 0);
  });
  EXPECT_LT(*quiet.find("page_faults")->total, *touching.find("page_faults")->total);
  EXPECT_GE(*touching.find("page_faults")->total, 10);  // large pages may take many at once
}

// Switches happen in the kernel: a counter that looks at programs alone would stay at 0.
TEST(CpuEvents, SeesThreadsThatSleep) {
  ThreadPool pool(1);
  constexpr int kSleeps = 20;
  const CpuCounts seen = counted(pool, [](int64_t, int) {
    // Long enough that no timer fires before its thread has left the processor, which costs no switch.
    for (int i = 0; i < kSleeps; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  EXPECT_GE(*seen.find("context_switches")->total, kSleeps);
}

}  // namespace
}  // namespace ridgeline
