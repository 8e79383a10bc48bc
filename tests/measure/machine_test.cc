#include "measure/machine.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "base/machine_limits.h"
#include "measure/clock_rate.h"
#include "measure/process_memory.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A file system tree of a small machine with 16 GiB, 12 of them available.
class FakeMachine {
 public:
  FakeMachine() {
    put("proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:   12582912 kB\n");
    put("proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Acme  9000 @ 2.00GHz\ncpu MHz\t\t: 1999.5\n"
        "flags\t\t: fpu avx2 fma avx512fancy amx_bf16\n\nprocessor\t: 1\nmodel name\t: Other\n"
        "cpu MHz\t\t: 2400.0\nflags\t\t: fpu\n");
    put("proc/sys/kernel/osrelease", "6.1.0-test\n");
    put("proc/loadavg", "0.75 0.5 0.25 1/81 3544\n");
    put("etc/os-release", "NAME=\"Acme\"\nPRETTY_NAME=\"Acme OS 12\"\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
    put("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n");
    put("sys/devices/system/cpu/cpu0/cache/index1/level", "3\n");
    put("sys/devices/system/cpu/cpu0/cache/index1/type", "Unified\n");
    put("sys/devices/system/cpu/cpu0/cache/index1/size", "32768K\n");
  }
  void put(const std::string& path, const std::string& text) { write_text(root_ / path, text); }
  const std::filesystem::path& root() const { return root_.path(); }

 private:
  TempDir root_;
};

TEST(Machine, FactsAreReadFromProcAndSys) {
  FakeMachine fake;
  const MachineFacts facts = collect_machine_facts(fake.root());
  EXPECT_EQ(facts.cpu_model, "Acme  9000 @ 2.00GHz");
  EXPECT_EQ(facts.isa, (std::vector<std::string>{"avx2", "fma", "amx_bf16"}));
  EXPECT_EQ(facts.caches, (std::vector<Cache>{{1, "Data", Bytes{48 * 1024}},
                                              {3, "Unified", Bytes{32 * 1024 * 1024}}}));
  EXPECT_EQ(facts.memory_total, Bytes{16 * kGiB});
  EXPECT_EQ(facts.memory_available, Bytes{12 * kGiB});
  EXPECT_EQ(facts.kernel, "6.1.0-test");
  EXPECT_EQ(facts.os, "Acme OS 12");
  EXPECT_EQ(facts.load_average, 0.75);
  EXPECT_EQ(facts.max_clock_mhz, 2400.0);
  EXPECT_EQ(facts.max_clock_source, "cpuinfo");
  EXPECT_EQ(facts.governor, std::nullopt);
}

TEST(Machine, TheMaximumClockComesFromCpufreqWherePresent) {
  FakeMachine fake;
  fake.put("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "5100000\n");
  fake.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  const MachineFacts facts = collect_machine_facts(fake.root());
  EXPECT_EQ(facts.max_clock_mhz, 5100.0);
  EXPECT_EQ(facts.max_clock_source, "cpufreq");
  EXPECT_EQ(facts.governor, "powersave");
}

TEST(Machine, AnEmptyTreeGivesEmptyFactsAndNoCrash) {
  const TempDir nothing;
  const MachineFacts facts = collect_machine_facts(nothing.path());
  EXPECT_EQ(facts.cpu_model, "unknown");
  EXPECT_EQ(facts.memory_total, Bytes{0});
  EXPECT_EQ(facts.max_clock_mhz, std::nullopt);
}

TEST(Machine, FingerprintHoldsStillForWhatDoesNotMatterAndMovesForWhatDoes) {
  FakeMachine fake;
  const MachineFacts facts = collect_machine_facts(fake.root());
  EXPECT_EQ(facts.fingerprint.size(), 16u);
  MachineFacts same = facts;
  same.kernel = "7.0";
  same.load_average = 9;
  same.measured_clock_mhz = 1;
  same.memory_available = {};
  same.memory_total -= Bytes{50 << 20};  // kernels differ in what they reserve
  EXPECT_EQ(fingerprint(same), facts.fingerprint);
  MachineFacts other = facts;
  other.logical_cores += 1;
  EXPECT_NE(fingerprint(other), facts.fingerprint);
  other = facts;
  other.memory_total = Bytes{32 * kGiB};
  EXPECT_NE(fingerprint(other), facts.fingerprint);
  other = facts;
  other.isa.emplace_back("avx512f");
  EXPECT_NE(fingerprint(other), facts.fingerprint);
}

TEST(Machine, TheRealOneHasCoresMemoryAndAPlausibleClock) {
  const MachineFacts facts = collect_machine_facts();
  EXPECT_GE(facts.logical_cores, 1);
  EXPECT_GT(facts.memory_total, Bytes{64 << 20});
  EXPECT_LE(facts.memory_available, facts.memory_total);
  EXPECT_GT(facts.measured_clock_mhz.value_or(0), 100);
  EXPECT_LT(facts.measured_clock_mhz.value_or(0), 10'000);
}

TEST(Cgroup, VersionTwoLimitsAreTheTightestUpToTheRoot) {
  FakeMachine fake;
  fake.put("proc/self/cgroup", "0::/batch/job\n");
  fake.put("sys/fs/cgroup/batch/job/memory.max", "max\n");
  fake.put("sys/fs/cgroup/batch/memory.max", std::to_string(4 * kGiB));
  fake.put("sys/fs/cgroup/batch/memory.current", std::to_string(2 * kGiB));
  fake.put("sys/fs/cgroup/batch/memory.stat",
           "anon 5\ninactive_file " + std::to_string(kGiB) + "\n");
  fake.put("sys/fs/cgroup/batch/cpu.max", "150000 100000\n");
  fake.put("sys/fs/cgroup/batch/job/cpu.max", "max 100000\n");
  const MachineMemory memory = machine_memory(fake.root());
  EXPECT_EQ(memory.total, Bytes{4 * kGiB});
  EXPECT_EQ(memory.available, Bytes{3 * kGiB});
  EXPECT_EQ(collect_machine_facts(fake.root()).cpu_quota_cores, 1.5);
}

TEST(Fingerprint, DiffersBetweenGpusButNotBetweenTheirDrivers) {
  MachineFacts cpu = collect_machine_facts();
  const std::string without = fingerprint(cpu);
  cpu.gpu = GpuFacts{.model = "NVIDIA H200", .arch = "sm_90a", .multiprocessors = 132};
  const std::string h200 = fingerprint(cpu);
  EXPECT_NE(h200, without);
  cpu.gpu->software = "driver 580";
  cpu.gpu->max_clock_mhz = 1980;
  EXPECT_EQ(fingerprint(cpu), h200);
  cpu.gpu->model = "NVIDIA H100 PCIe";
  EXPECT_NE(fingerprint(cpu), h200);
}

TEST(Cgroup, VersionOneLimitsCountToo) {
  FakeMachine fake;
  fake.put("proc/self/cgroup", "5:cpu,cpuacct:/box\n4:memory:/box\n1:name=systemd:/\n0::/\n");
  fake.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  fake.put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", std::to_string(kGiB));
  fake.put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", std::to_string(kGiB / 4));
  fake.put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
  fake.put("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  const CgroupLimits limits = read_cgroup_limits(fake.root());
  EXPECT_EQ(limits.memory, Bytes{kGiB});
  EXPECT_EQ(limits.memory_left, Bytes{kGiB - kGiB / 4});
  EXPECT_EQ(limits.cpu_cores, 0.5);
}

TEST(Cgroup, NoLimitIsNoLimit) {
  FakeMachine fake;
  fake.put("proc/self/cgroup", "4:memory:/\n2:cpu:/\n0::/../outside\n");
  fake.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  fake.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  const CgroupLimits limits = read_cgroup_limits(fake.root());
  EXPECT_EQ(limits.memory, std::nullopt);
  EXPECT_EQ(limits.cpu_cores, std::nullopt);
}

TEST(Cgroup, AGroupBeyondItsLimitLeavesNothing) {
  FakeMachine fake;
  fake.put("proc/self/cgroup", "0::/\n");
  fake.put("sys/fs/cgroup/memory.max", "1000\n");
  fake.put("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(read_cgroup_limits(fake.root()).memory_left, Bytes{0});
}

TEST(ProcessMemory, ThePeakKeepsWhatWasFreedUntilItIsReset) {
  constexpr int64_t kBlock = 64 << 20;
  if (!reset_peak_rss()) GTEST_SKIP() << "this kernel does not reset the peak";
  const Bytes before = *current_rss();
  // Uses mmap directly, as an allocator may keep freed memory.
  void* block = mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kBlock);
  EXPECT_GE((*current_rss() - before).count, kBlock * 9 / 10);
  munmap(block, kBlock);
  EXPECT_GE((*peak_rss() - before).count, kBlock * 9 / 10);
  ASSERT_TRUE(reset_peak_rss());
  EXPECT_LT((*peak_rss() - before).count, kBlock / 2);
}

}  // namespace
}  // namespace ridgeline
