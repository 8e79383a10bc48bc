// The probes of the roofline on the CPU: what they are, and that a row says what it must.
#include "studies/roofline/row.h"

#include <gtest/gtest.h>

#include <set>

#include "measure/roofline_model.h"
#include "measure/test_support.h"
#include "runtime/cpu_device.h"

namespace ridgeline::roofline_study_test {
namespace {

Record blank() {
  Record record;
  record.machine = collect_machine_facts();
  record.machine.caches = {{1, "Data", Bytes{32 << 10}},
                           {1, "Instruction", Bytes{32 << 10}},
                           {2, "Unified", Bytes{256 << 10}},
                           {3, "Unified", Bytes{1 << 20}}};
  return record;
}

CpuOptions two_threads(Bytes budget) {
  return {.threads = 2, .ledger = {.budget = budget}};
}

RooflineStudyOptions quick() {
  return {.row = {.protocol = {.warmups = 0, .time_budget_s = 5e-3}},
          .settle_s = 1e-3,
          .sizes = {64, 96}};
}

TEST(RooflineStudy, LevelsAreThoseOfTheMachineAndMemoryIsBeyondTheLastCache) {
  CpuDevice device(two_threads(Bytes{int64_t{8} << 30}));
  const RooflineStudy study(device, quick());
  std::map<std::string, CeilingProbe> copies;
  for (const CeilingProbe& probe : study.probes({"fp32"}, blank()))
    if (probe.implementation == "copy") copies[probe.level] = probe;
  ASSERT_EQ(copies.size(), 4u);
  EXPECT_EQ(copies["L1"].capacity, Bytes{2 * (32 << 10)}) << "a core's own, two threads";
  EXPECT_EQ(copies["L3"].capacity, Bytes{1 << 20}) << "shared";
  for (const char* level : {"L1", "L2", "L3"})
    EXPECT_LE(2 * copies[level].buffer.count, copies[level].capacity.count / 2) << level;
  EXPECT_EQ(copies["memory"].capacity, Bytes{0});
  EXPECT_GE(copies["memory"].buffer.count, 4 * (1 << 20));
}

TEST(RooflineStudy, MemoryIsAlsoCopiedByWhatTheSystemBrings) {
  CpuDevice device(two_threads(Bytes{80 << 20}));
  std::multiset<std::string> names;
  for (const CeilingProbe& probe : RooflineStudy(device, quick()).probes({"fp32"}, blank()))
    if (probe.level == "memory") names.insert(probe.implementation);
  EXPECT_EQ(names, (std::multiset<std::string>{"copy", "copy-memcpy", "copy-streaming", "read",
                                               "read-streaming", "triad", "triad-streaming"}));
}

TEST(RooflineStudy, StreamsStayWithinTheBudget) {
  constexpr Bytes kBudget{40 << 20};
  CpuDevice device(two_threads(kBudget));
  const RooflineStudy study(device, quick());
  for (const CeilingProbe& probe : study.probes({"fp32"}, blank()))
    if (!probe.is_compute()) {
      EXPECT_LE(*study.describe(probe, blank()).memory.predicted_peak, kBudget) << label(probe);
    }
}

TEST(RooflineStudy, ArraysThatTheLastCacheHoldsAreMarked) {
  for (const auto& [budget, within] : {std::pair{Bytes{1 << 20}, true}, {Bytes{64 << 20}, false}}) {
    CpuDevice device(two_threads(budget));
    for (const CeilingProbe& probe : RooflineStudy(device, quick()).probes({"fp32"}, blank()))
      EXPECT_EQ(probe.within_cache, within && probe.level == "memory") << label(probe);
  }
}

TEST(RooflineStudy, EveryProbeGivesARateAndTogetherARoofline) {
  CpuDevice device(two_threads(Bytes{80 << 20}));
  RooflineStudy study(device, quick());
  std::vector<Record> records;
  for (const CeilingProbe& probe : study.probes({"fp32", "bf16"}, blank())) {
    const Record record = study.run(probe, study.describe(probe, blank())).value();
    ASSERT_EQ(record.status, Status::ok) << label(probe) << ": " << record.error;
    EXPECT_EQ(record.memory.peak.value() > Bytes{}, probe.size > 0 || !probe.is_compute());
    const Json& metrics = *record.metrics;
    const char* unit = probe.is_compute() ? "gflops_per_s" : "gb_per_s";
    EXPECT_GT(metrics[unit].get<double>(), 0) << label(probe);
    EXPECT_GE(metrics[unit].get<double>(), metrics[std::string("median_") + unit].get<double>());
    EXPECT_EQ(metrics.contains("probe"), probe.is_compute() || probe.capacity == Bytes{})
        << "a cache is not the roof's slope";
    EXPECT_EQ(device.ledger().live(), Bytes{0});
    records.push_back(record);
  }
  const std::vector<Roofline> all = rooflines(records);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].ridge("fp32"));
  EXPECT_TRUE(all[0].ridge("bf16"));
  EXPECT_EQ(all[0].memory.size(), 4u);
}

TEST(RooflineStudy, AnInterruptedProbeIsNoRecord) {
  CpuDevice device(two_threads(Bytes{80 << 20}));
  RooflineStudyOptions options = quick();
  options.row.interrupted = [] { return true; };
  RooflineStudy study(device, options);
  const CeilingProbe probe = study.probes({"fp32"}, blank()).at(0);
  EXPECT_FALSE(study.run(probe, study.describe(probe, blank())));
}

}  // namespace
}  // namespace ridgeline::roofline_study_test
