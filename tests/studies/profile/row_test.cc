// Rows of the profile study, in small, on the CPU.
#include "studies/profile/row.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "measure/test_support.h"
#include "runtime/cpu_device.h"
#include "studies/profile/fold_rows.h"
#include "studies/profile/tables.h"
#include "support/tiny_transformer.h"

namespace ridgeline::profile_study_test {
namespace {

CpuOptions one_thread(Bytes budget = Bytes{64 << 20}) {
  return {.threads = 1, .ledger = {.budget = budget}};
}

ProfileStudyOptions quick() {
  return {.schedule = {.wait = 0, .warmup = 1, .active = 2}};
}

StepWorkload tiny_model(Mode mode, Scenario scenario = Scenario::full_step) {
  return {ModelWorkload{.config = testing::tiny_transformer(), .mode = mode}, mode, scenario};
}

StepWorkload tiny_attention(Mode mode, Scenario scenario) {
  return {AttentionConfig{.batch_size = 1, .seq_len = 24, .head_dim = 8}, mode, scenario};
}

Record run(CpuDevice& device, const StepWorkload& workload, ProfileStudyOptions options = quick(),
           const ProfileRowOptions& how = {}) {
  ProfileStudy study(device, std::move(options));
  return study.run(workload, how, study.describe(workload, {})).value();
}

std::vector<std::string> keys(const Record& record, const char* by) {
  std::vector<std::string> found;
  for (const FoldRow& row : fold_rows(record, by)) found.push_back(row.key);
  std::sort(found.begin(), found.end());
  return found;
}

TEST(ProfileStudy, AFullStepHasAllPhasesInEveryMode) {
  CpuDevice device(one_thread());
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    const Record record = run(device, tiny_model(mode));
    ASSERT_EQ(record.status, Status::ok) << record.error;
    EXPECT_EQ(record.implementation, info(mode).name);
    EXPECT_EQ(keys(record, "phase"),
              (std::vector<std::string>{"backward", "forward", "optimizer"}));
    double share = 0, invocations = 0;
    for (const FoldRow& row : fold_rows(record, "kernel")) {
      share += row.share.value();
      invocations += row.invocations.value();
      EXPECT_FALSE(row.phase.empty()) << row.key;
    }
    EXPECT_NEAR(share, 1, 1e-6);
    EXPECT_EQ(invocations, (*record.metrics)["launches"].get<double>()) << "kernels of one step";
    EXPECT_EQ((*record.metrics)["unmapped"].get<int>(), 0);
    EXPECT_EQ((*record.metrics)["steps"].get<int>(), 2);
    EXPECT_EQ(record.memory.peak, record.memory.predicted_peak);
    EXPECT_TRUE(record.metrics->contains("tracing_cost"));
    EXPECT_EQ(device.ledger().live(), Bytes{0});
    EXPECT_GE(profile_answers(record).size(), 4u);
    EXPECT_FALSE(record.metrics->contains("utilization")) << "a CPU has no such counters";
    const Json& events = record.metrics->at("cpu_events");
    EXPECT_GT(events.at("task_clock_ns").get<double>(), 0);
    EXPECT_GT(events.at("elapsed_ns").get<double>(), 0);
    for (const char* name : {"page_faults", "context_switches", "forced_switches"})
      EXPECT_GE(events.at(name).get<double>(), 0) << name;
    for (const char* name : {"cpu_migrations", "cycles", "instructions", "cache_misses"})
      EXPECT_TRUE(events.contains(name) || !events.at("unsupported").at(name).text().empty());
  }
}

TEST(ProfileStudy, AttentionIsProfiledForwardOrWithBackward) {
  CpuDevice device(one_thread());
  const Record forward = run(device, tiny_attention(Mode::vanilla, Scenario::forward));
  ASSERT_EQ(forward.status, Status::ok) << forward.error;
  EXPECT_EQ(keys(forward, "phase"), std::vector<std::string>{"forward"});
  EXPECT_TRUE(forward.metrics->contains("softmax_against_matmul"));
  const Record both = run(device, tiny_attention(Mode::compiled, Scenario::forward_backward));
  ASSERT_EQ(both.status, Status::ok) << both.error;
  EXPECT_EQ(keys(both, "phase"), (std::vector<std::string>{"backward", "forward"}));
  EXPECT_EQ(keys(both, "category"), std::vector<std::string>{"attention"});
  for (const std::string& answer : profile_answers(both))
    EXPECT_LACKS(answer, "matrix products") << "there are none: " << answer;
}

TEST(ProfileStudy, PredictionsComeFromMeasuredCeilings) {
  CpuDevice device(one_thread());
  Roofline roofline;
  roofline.compute = {{.dtype = "fp32", .probe = "fma", .rate = 1e18}};
  roofline.memory = {{.level = "memory", .probe = "copy", .rate = 1e12}};
  ProfileStudyOptions options = quick();
  options.roofline = &roofline;
  const Record record =
      run(device, tiny_attention(Mode::vanilla, Scenario::forward), std::move(options));
  for (const FoldRow& row : fold_rows(record, "kernel")) {
    ASSERT_TRUE(row.predicted_us && row.roof_share && row.prediction_error) << row.key;
    // The memory decides: bytes at 1e12 per second.
    EXPECT_NEAR(*row.roof_share, *row.bytes_per_s / 1e12, 1e-9) << row.key;
    EXPECT_NEAR((1 + *row.prediction_error) * *row.roof_share, 1, 1e-9);
  }
}

TEST(ProfileStudy, WithoutCeilingsNothingIsPredictedOnACpu) {
  CpuDevice device(one_thread());
  const Record record = run(device, tiny_attention(Mode::vanilla, Scenario::forward));
  for (const FoldRow& row : fold_rows(record, "kernel")) EXPECT_FALSE(row.predicted_us) << row.key;
}

TEST(ProfileStudy, TheTraceHasMemoryAsACounterUpToThePeak) {
  const TempDir folder;
  CpuDevice device(one_thread());
  const Record record =
      run(device, tiny_model(Mode::vanilla), quick(), {.trace = folder / "trace.json"});
  const std::string trace = read_text(folder / "trace.json");
  EXPECT_HAS(trace, R"("ph":"C","cat":"hardware_counters","name":"memory")");
  EXPECT_HAS(trace, fmt::format(R"("bytes":{})", record.memory.peak->count))
      << record.memory.peak->count;
}

TEST(ProfileStudy, ATraceThatCannotBeWrittenLosesNoFigures) {
  const TempDir folder;
  CpuDevice device(one_thread());
  const StepWorkload workload = tiny_attention(Mode::vanilla, Scenario::forward);
  const Record written = run(device, workload, quick(), {.trace = folder / "trace.json.gz"});
  EXPECT_EQ((*written.metrics)["trace"].text(), (folder / "trace.json.gz").string());
  EXPECT_TRUE(std::filesystem::exists(folder / "trace.json.gz"));
  const Record record =
      run(device, workload, quick(), {.trace = folder / "trace.json.gz" / "below_a_file.json"});
  EXPECT_EQ(record.status, Status::ok) << record.error;
  EXPECT_FALSE(fold_rows(record, "kernel").empty());
  EXPECT_TRUE(record.metrics->contains("trace_not_written"));
}

TEST(ProfileStudy, WhatDoesNotFitIsNotTried) {
  CpuDevice device(one_thread(Bytes{1 << 10}));
  const Record record = run(device, tiny_model(Mode::vanilla));
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_TRUE(profile_answers(record).empty());
}

TEST(ProfileStudy, AnInterruptionBetweenStepsEndsTheRow) {
  CpuDevice device(one_thread());
  ProfileStudyOptions options = quick();
  int asked = 0;
  options.row.interrupted = [&] { return ++asked > 2; };
  ProfileStudy study(device, std::move(options));
  const StepWorkload workload = tiny_attention(Mode::vanilla, Scenario::forward);
  EXPECT_FALSE(study.run(workload, {}, study.describe(workload, {})));
}

TEST(StepWorkloads, ModesOfOneProblemFollowEachOther) {
  StepAxes axes;
  axes.model.context_lengths = {16, 32};
  axes.model.scenarios = {"full-step", "forward"};
  std::vector<std::string> labels;
  for (const StepWorkload& workload : workloads_of(axes)) labels.push_back(label(workload));
  ASSERT_EQ(labels.size(), 8u);
  EXPECT_EQ(labels[0], "small context=16 batch=4 fp32 forward, vanilla");
  EXPECT_EQ(labels[1], "small context=16 batch=4 fp32 forward, compiled");
  EXPECT_EQ(labels[2], "small context=16 batch=4 fp32 full-step, vanilla");
  EXPECT_EQ(labels[7], "small context=32 batch=4 fp32 full-step, compiled");
  EXPECT_EQ(file_name(workloads_of(axes)[0]), "small_context_16_batch_4_fp32_forward_vanilla");
}

TEST(StepWorkloads, AttentionHasNoFullStep) {
  StepAxes axes{.attention = true, .gave_scenarios = true};
  EXPECT_ERROR(workloads_of(axes), ErrorKind::usage, "no full-step");
  axes.gave_scenarios = false;
  for (const StepWorkload& workload : workloads_of(axes))
    EXPECT_EQ(workload.scenario, Scenario::forward_backward);
}

}  // namespace
}  // namespace ridgeline::profile_study_test
