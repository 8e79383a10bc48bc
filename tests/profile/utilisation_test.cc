#include "runtime/utilisation.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/print.h"
#include "jit/run_child.h"
#include "profile/fake_libraries.h"
#include "profile/trace.h"
#include "profile/trace_check.h"
#include "runtime/cpu_device.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

using testing::FakeCupti;
using testing::Told;

void some_work() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// ---- the ladder, with sources of our own

struct FakeSource : UtilisationSource {
  std::string fails_in;
  int* stopped;
  FakeSource(std::string word, int* count) : fails_in(std::move(word)), stopped(count) {}
  double least_s() const override { return 0.01; }
  std::string failure(const char* here) const {
    return fails_in == here ? std::string(here) + " failed" : "";
  }
  std::string prepare(double expected_s) override {
    EXPECT_GE(expected_s, least_s());
    return failure("prepare");
  }
  std::string start() override { return failure("start"); }
  std::string stop(Utilisation& seen) override {
    seen.sm_active = 0.5;
    ++*stopped;
    return failure("stop");
  }
};

TEST(UtilisationMeter, TakesTheBestSourceThatWorksAndKeepsIt) {
  CpuDevice device({.threads = 1});
  int opened = 0, stopped = 0;
  const auto rung = [&](const char* fails_in) {
    return UtilisationRung{
        fails_in, [&, fails_in](std::string& why_not) -> std::unique_ptr<UtilisationSource> {
          ++opened;
          why_not = "cannot be opened";
          if (std::string_view(fails_in) == "open") return nullptr;
          return std::make_unique<FakeSource>(fails_in, &stopped);
        }};
  };
  UtilisationMeter meter(
      {rung("open"), rung("prepare"), rung("start"), rung("stop"), rung("good")});
  const std::vector<std::string> reasons = {"open: cannot be opened", "prepare: prepare failed",
                                            "start: start failed", "stop: stop failed"};
  for (int row = 0; row < 2; ++row) {
    const Utilisation seen = meter.measure(device, some_work);
    EXPECT_EQ(seen.source, "good");
    EXPECT_EQ(seen.sm_active, 0.5);
    EXPECT_GE(seen.end_ns - seen.begin_ns, 10'000'000);
    EXPECT_EQ(seen.passed_over, reasons);
  }
  EXPECT_EQ(opened, 5) << "what failed once is not asked again";
  EXPECT_EQ(stopped, 3);
}

TEST(UtilisationMeter, WithoutASourceTheAnswerIsWhyThereIsNone) {
  CpuDevice device({.threads = 1});
  UtilisationMeter meter({{"only", [](std::string& why_not) -> std::unique_ptr<UtilisationSource> {
                             why_not = "it is not here";
                             return nullptr;
                           }}});
  const Utilisation seen = meter.measure(device, some_work);
  EXPECT_EQ(seen.source, "");
  EXPECT_FALSE(seen.sm_active);
  EXPECT_EQ(seen.passed_over, std::vector<std::string>{"only: it is not here"});
}

TEST(UtilisationMeter, WorkThatFailsFailsAndTheSourceServesAgain) {
  CpuDevice device({.threads = 1});
  int stopped = 0;
  UtilisationMeter meter(
      {{"good", [&](std::string&) { return std::make_unique<FakeSource>("", &stopped); }}});
  EXPECT_THROW(meter.measure(device, [] { throw Error(ErrorKind::out_of_memory, "no room"); }),
               Error);
  EXPECT_EQ(meter.measure(device, some_work).source, "good");
}

// ---- CUPTI

TEST(PmSampling, GivesMeansAndSamplesOfEveryPassUntilOneFails) {
  const Told word("breaks");
  FakeCupti fake;
  CpuDevice device({.threads = 1});
  int stopped = 0;
  UtilisationMeter meter(
      {{"fake", [&](std::string& why_not) { return open_pm_sampling(fake.library, 0, why_not); }},
       {"next", [&](std::string&) { return std::make_unique<FakeSource>("", &stopped); }}});
  for (int pass = 0; pass < 2; ++pass) {  // sampling is enabled anew for each
    const int64_t before_ns = monotonic_ns();
    const Utilisation seen = meter.measure(device, some_work);
    ASSERT_EQ(seen.source, "fake") << (seen.passed_over.empty() ? "" : seen.passed_over[0]);
    // The first sample of 102 is left out, and one covers no time. Half of the others were at work.
    ASSERT_EQ(seen.samples.size(), 100u);
    EXPECT_NEAR(*seen.sm_active, 0.45, 1e-9);
    EXPECT_NEAR(*seen.tensor_active, 0.30, 1e-9);
    EXPECT_NEAR(*seen.dram_bytes_per_s, 1e9, 1);
    EXPECT_NEAR(*seen.sm_clock_hz, 1.7e9, 1);
    EXPECT_EQ(*seen.samples.front().sm_active, 0.9);
    EXPECT_EQ(*seen.samples.back().sm_active, 0);
    EXPECT_GT(seen.samples.back().end_ns, before_ns);  // by our clock, not the GPU's
    EXPECT_LE(seen.samples.back().end_ns, monotonic_ns());
  }
  const Utilisation third = meter.measure(device, some_work);
  EXPECT_EQ(third.source, "next");
  EXPECT_HAS(third.passed_over.at(0), "decoding CUPTI's samples");
}

TEST(PmSampling, WhatFailsIsASentence) {
  CpuDevice device({.threads = 1});
  struct Case {
    const char *told, *part;
  };
  for (const auto& [told, part] :
       {Case{"no_counters", "administrators"}, Case{"two_passes", "2 passes"},
        Case{"idle", "stayed at zero"}}) {
    const Told word(told);
    FakeCupti fake;
    UtilisationMeter meter({{"fake", [&](std::string& why_not) {
                               return open_pm_sampling(fake.library, 0, why_not);
                             }}});
    const Utilisation seen = meter.measure(device, some_work);
    EXPECT_EQ(seen.source, "") << told;
    ASSERT_EQ(seen.passed_over.size(), 1u);
    EXPECT_HAS(seen.passed_over[0], part);
  }
}

// The host's part of CUPTI needs no GPU, so what is sampled can be held against real libraries.
TEST(PmSampling, CountersAreKnownAndFitOnePassOnEveryChipThatHasThem) {
  const CudaLibrary& cupti = cuda_library("cupti");
  if (!cupti) GTEST_SKIP() << "no CUPTI";
  const std::string first = check_sampled_counters(cupti, "GH100");
  if (first.find("(999)") != std::string::npos)
    GTEST_SKIP() << cupti.path << " tells nothing without a driver: " << first;
  for (const char* chip : {"GA100", "GA102", "AD102", "GH100", "GB100"})
    EXPECT_EQ(check_sampled_counters(cupti, chip), "") << chip;
  EXPECT_NE(check_sampled_counters(cupti, "GX999"), "");
  // One without counters of memory: the rest serves.
  EXPECT_EQ(check_sampled_counters(cupti, "GB202"), "GB202 does not know dram__bytes_read.sum");
}

// ---- each step down, with libraries that stand in for NVIDIA's

TEST(Child, DISABLED_MeasuresUtilisation) {
  CpuDevice device({.threads = 1});
  const Utilisation seen = gpu_utilisation(0).measure(device, some_work);
  print("by {}\n", seen.source.empty() ? "nothing" : seen.source);
  for (const std::string& each : seen.passed_over) print("not by {}\n", each);
  for (const auto& [name, value] : {std::pair("sm", seen.sm_active),
                                    {"tensor", seen.tensor_active},
                                    {"dram", seen.dram_bytes_per_s},
                                    {"kernel", seen.any_kernel},
                                    {"clock", seen.sm_clock_hz}})
    if (value) print("{} {:.4g}\n", name, *value);
}

class UtilisationSteps : public ::testing::Test {
 protected:
  UtilisationSteps() {
    std::filesystem::create_symlink(FAKE_GPU, folder_ / "libcuda.so.1");
    std::filesystem::create_symlink(FAKE_CUPTI_LIBRARY, folder_ / "libcupti.so.13");
    std::filesystem::create_symlink(FAKE_NVML_LIBRARY, folder_ / "libnvidia-ml.so.1");
  }
  std::string measured(const char* cupti, const char* nvml) const {
    const ChildResult child =
        run_child("MeasuresUtilisation", {{"RIDGELINE_CUDA_LIBRARIES", folder_.path().string()},
                                          {"FAKE_CUPTI", cupti},
                                          {"FAKE_NVML", nvml}});
    EXPECT_EQ(child.exit_code, 0) << child.out << child.err;
    return child.out;
  }
  TempDir folder_;
};

TEST_F(UtilisationSteps, CountersByCuptiComeFirst) {
  const std::string out = measured("", "");
  EXPECT_TRUE(contains(out, "by CUPTI PM sampling\n")) << out;
  EXPECT_TRUE(contains(out, "tensor 0.3\n")) << out;
  EXPECT_FALSE(contains(out, "not by")) << out;
}

TEST_F(UtilisationSteps, WithoutPermissionNvmlsCountersServe) {
  const std::string out = measured("no_counters", "");
  EXPECT_TRUE(contains(out, "by NVML GPM\n")) << out;
  EXPECT_TRUE(contains(out,
                       "not by CUPTI PM sampling: asking CUPTI which counters may be read "
                       "gave CUPTI_ERROR_FAKE (35); the driver allows it to administrators"))
      << out;
  EXPECT_TRUE(contains(out, "sm 0.8\ntensor 0.25\ndram 5.12e+11\nclock 1.5e+09\n")) << out;
}

TEST_F(UtilisationSteps, CuptiIsLeftToAProfilerThatIsAttached) {
  setenv("CUDA_INJECTION64_PATH", "libprofiler.so", 1);
  const std::string out = measured("", "");
  unsetenv("CUDA_INJECTION64_PATH");
  EXPECT_TRUE(contains(out, "by NVML GPM\n")) << out;
  EXPECT_TRUE(contains(out, "another profiler is attached to this process")) << out;
}

TEST_F(UtilisationSteps, BeforeHopperTheShareOfTimeWithAKernelServes) {
  const std::string out = measured("no_counters", "no_gpm");
  EXPECT_TRUE(contains(out, "by NVML utilization.gpu\n")) << out;
  EXPECT_TRUE(contains(out, "not by NVML GPM: this GPU has no counters")) << out;
  EXPECT_TRUE(contains(out, "kernel 0.98\n")) << out;
  EXPECT_FALSE(contains(out, "sm 0")) << out;
}

TEST_F(UtilisationSteps, WithNothingThereIsNothingButReasons) {
  std::filesystem::remove(folder_ / "libnvidia-ml.so.1");
  std::filesystem::remove(folder_ / "libcupti.so.13");
  const std::string out = measured("", "");
  for (const char* part : {"by nothing\n", "not by CUPTI PM sampling: no CUPTI was found",
                           "not by NVML GPM: NVML does", "not by NVML utilization.gpu: NVML does"})
    EXPECT_TRUE(contains(out, part)) << part << out;
}

// ---- in traces

TEST(Trace, CountersOfAGpuAreTracksOfAProcessOfTheirOwn) {
  Utilisation seen;
  seen.source = "NVML GPM";
  seen.begin_ns = 2'000;
  seen.end_ns = 9'000;
  for (const int64_t begin : {2'000, 3'000, 4'000, 5'000}) {
    UtilisationSample sample;
    sample.begin_ns = begin;
    sample.end_ns = begin + 1'000;
    sample.sm_active = 0.75;
    sample.dram_bytes_per_s = 2e12;
    seen.samples.push_back(sample);
  }
  TraceOptions options;
  Profile profile;
  profile.has_queue = true;
  profile.steps = {{.number = 1, .begin_ns = 500, .end_ns = 1'000},
                   {.number = 2, .begin_ns = 1'000, .end_ns = 2'500}};
  add_utilisation(options, seen, 0, 500, profile);
  const TempDir folder;
  write_trace(profile, folder / "trace.json", options);
  const testing::ReadTrace trace = testing::read_trace(read_text(folder / "trace.json"));
  EXPECT_EQ(testing::overlap_in(trace.events), "");
  const auto points = testing::events_of(trace, "C", "hardware_counters");
  ASSERT_EQ(points.size(), 6u);  // two tracks, of as many samples as the steps take, and their end
  EXPECT_EQ(points[0]->at("pid").text(), "GPU 0 Counters");
  EXPECT_EQ(points[0]->at("name").text(), "SM active");
  EXPECT_EQ(points[0]->at("args").at("%").get<double>(), 75);
  EXPECT_NEAR(points[0]->at("ts").get<double>(), 2.0, 1e-9);
  EXPECT_EQ(points[3]->at("args").at("GB/s").get<double>(), 2000);
  EXPECT_EQ(points[5]->at("args").at("GB/s").get<double>(), 0);
  const auto marks = testing::events_of(trace, "X", "user_annotation");
  ASSERT_EQ(marks.size(), 3u);
  EXPECT_HAS(marks[2]->at("name").text(), "counters by NVML GPM");
}

}  // namespace
}  // namespace ridgeline
