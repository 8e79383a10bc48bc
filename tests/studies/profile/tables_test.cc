// Tables and sentences of the profile study, from records made by hand.
#include "studies/profile/tables.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "measure/test_support.h"
#include "report/page/rows.h"
#include "studies/profile/metrics.h"

namespace ridgeline::profile_study_test {
namespace {

Json fold_json(const char* key, const char* phase, const char* category, double invocations,
               double total_ms) {
  return {{"key", key},
          {"phase", phase},
          {"category", category},
          {"kernels", 1},
          {"invocations", invocations},
          {"total_ms", total_ms},
          {"mean_us", 1e3 * total_ms / invocations},
          {"share", total_ms / 10},
          {"flops_per_s", 2e9},
          {"bytes_per_s", 1e9},
          {"predicted_us", 500 * total_ms / invocations},
          {"roof_share", 0.5},
          {"prediction_error", 1.0}};
}

// Forward of 4 ms, backward of 6 ms.
Record full_step(const char* mode = "vanilla") {
  Record record;
  record.study = "profile";
  record.implementation = mode;
  record.device = "cuda";
  record.workload = {{"of", "model"},   {"model_size", "small"}, {"context_length", 128},
                     {"batch_size", 4}, {"precision", "mixed"},  {"scenario", "full-step"}};
  record.metrics = Json{
      {"source", "CUPTI 13.0"},
      {"steps", 6},
      {"starts", 12},
      {"traced_step_ms", 11.0},
      {"untraced_step_ms", 10.0},
      {"tracing_cost", 0.1},
      {"untraced_device_ms", 9.9},
      {"unmapped", 0},
      {"device_time",
       {{"span_ms", 10.0}, {"busy_ms", 9.0}, {"waited_for_host_ms", 0.5}, {"own_gaps_ms", 0.5}}},
      {"launch_verdict", "not launch-bound: of a step's time on the device 90.0 % ran kernels"},
      {"predicted_by", "ceilings"},
      {"matmul_share", {{"forward", 0.75}, {"step", 0.6}}},
      {"softmax_against_matmul",
       {{"softmax_us", 50.0},
        {"matmul_us", 100.0},
        {"softmax_flops", 10.0},
        {"matmul_flops", 1000.0}}},
      {"folds",
       {{"phase", Json::array({fold_json("backward", "backward", "", 8, 6),
                               fold_json("forward", "forward", "", 4, 4)})},
        {"category", Json::array({fold_json("gemm", "", "gemm", 8, 9),
                                  fold_json("softmax", "forward", "softmax", 4, 1)})},
        {"phase_category", Json::array({fold_json("gemm", "backward", "gemm", 8, 6),
                                        fold_json("gemm", "forward", "gemm", 3, 3),
                                        fold_json("softmax", "forward", "softmax", 1, 1)})},
        {"scope", Json::array({fold_json("layers.*.ffn", "forward", "gemm", 3, 3)})},
        {"kernel", Json::array({fold_json("nvjet", "backward", "gemm", 8, 6),
                                fold_json("nvjet", "forward", "gemm", 3, 3),
                                fold_json("rows_softmax", "forward", "softmax", 1, 1)})}}}};
  return record;
}

bool has(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

Json& folds_of(Record& record, const char* by) {
  return record.metrics->at("folds")[std::string_view(by)];
}

TEST(ProfileAnswers, SayWhatTakesMostInEachPhase) {
  Record record = full_step();
  std::vector<std::string> answers = profile_answers(record);
  EXPECT_TRUE(has(answers, "in forward nvjet takes most: 75.0 % of its time in 3 invocations"));
  EXPECT_TRUE(has(answers, "in backward it is the same kernel: 100.0 % of its time in 8"));
  EXPECT_TRUE(has(answers, "besides matrix products, forward spends 25.0 % in softmax"));
  EXPECT_TRUE(has(answers, "75.0 % of forward and 60.0 % of the whole step"));
  EXPECT_TRUE(has(answers, "0.5 times their time with 0.01 times their FLOPs"));
  EXPECT_TRUE(has(answers, "not launch-bound"));
  EXPECT_TRUE(has(answers, "+10.0 %")) << "9.9 ms beside 9 ms";

  folds_of(record, "kernel") = Json::array(
      {fold_json("other", "backward", "gemm", 8, 6), fold_json("nvjet", "forward", "gemm", 3, 3)});
  answers = profile_answers(record);
  EXPECT_TRUE(has(answers, "in backward it is another one, other"));
}

TEST(ProfileAnswers, SayNoMoreThanTheirData) {
  Record record = full_step();
  record.metrics->erase("softmax_against_matmul");
  record.metrics->erase("launch_verdict");
  record.metrics->erase("untraced_device_ms");
  folds_of(record, "kernel") = Json::array({fold_json("nvjet", "forward", "gemm", 3, 3)});
  folds_of(record, "phase") = Json::array({fold_json("forward", "forward", "", 4, 4)});
  const std::vector<std::string> answers = profile_answers(record);
  EXPECT_FALSE(has(answers, "backward"));
  EXPECT_FALSE(has(answers, "whole step"));
  EXPECT_FALSE(has(answers, "softmax takes"));
  EXPECT_FALSE(has(answers, "launch-bound"));
  // What was summed up has no name to be told.
  folds_of(record, "kernel") = Json::array({fold_json(kOtherFolds, "forward", "", 3, 3)});
  EXPECT_FALSE(has(profile_answers(record), "takes most"));

  Record failed = full_step();
  failed.status = Status::oom;
  EXPECT_TRUE(profile_answers(failed).empty());
  EXPECT_TRUE(profile_answers(Record{}).empty());
}

TEST(ProfileAnswers, ProductsInsideOfAttentionKernelsAreNotCountedAndThatIsSaid) {
  Record record = full_step("compiled");
  folds_of(record, "category").push_back(fold_json("attention", "forward", "attention", 2, 1));
  EXPECT_TRUE(has(profile_answers(record), "inside of attention kernels are not among them"));
}

TEST(ProfileNotes, CompareInferenceWithAFullStepOfTheSameModelAndMode) {
  Record inference = full_step();
  inference.workload["scenario"] = "forward";
  inference.metrics->at("matmul_share") = Json{{"forward", 0.8}, {"step", 0.8}};
  const std::vector<Record> both = {inference, full_step()};
  EXPECT_TRUE(has(profile_notes(both), "matrix products go from 80.0 % of the time to 60.0 %"));
  const std::vector<Record> other_mode = {inference, full_step("compiled")};
  EXPECT_FALSE(has(profile_notes(other_mode), "from inference"));
}

TEST(ProfileNotes, SayWhereTimesComeFromAndWhatTracingCosts) {
  std::vector<Record> records = {full_step(), full_step("compiled")};
  records[0].metrics->erase("untraced_step_ms");
  records[0].metrics->erase("tracing_cost");
  records[1].metrics->at("unmapped") = 3;
  (*records[1].metrics)["why_not_cupti"] = "libcupti is missing";
  const std::vector<std::string> notes = profile_notes(records);
  EXPECT_TRUE(has(notes, "vanilla: what tracing costs was not measured"));
  EXPECT_TRUE(has(notes, "compiled: tracing costs 10.0 % of a step: 11 ms with it, 10 ms without"));
  EXPECT_TRUE(has(notes, "times are by CUPTI 13.0: libcupti is missing"));
  EXPECT_TRUE(has(notes, "3 pieces of work belong to no node"));
  EXPECT_TRUE(has(notes, "predicted is the least time below ceilings"));
  EXPECT_FALSE(has(notes, "nothing is predicted"));
  records[1].disturbance = Disturbance{.window_s = 1, .processors = 2, .other_cores = 1.9};
  const std::vector<std::string> busy = profile_notes(records);
  EXPECT_FALSE(has(busy, "compiled: tracing costs"));
  EXPECT_TRUE(has(busy,
                  "compiled: a step takes 11 ms with tracing and 10 ms without, which does not say "
                  "what tracing costs: other processes used 1.9 of 2 processors meanwhile"));
}

TEST(ProfileTables, TellHowBusyTheGpuWasByItsCountersAndByWhich) {
  Record record = full_step();
  EXPECT_EQ(std::ranges::count(profile_modes(std::vector{record}).columns, "SM %"), 0);
  (*record.metrics)["utilization"] = Json{{"source", "NVML GPM"},
                                          {"sm_active", 0.09},
                                          {"tensor_active", 0.04},
                                          {"dram_bytes_per_s", 3e12},
                                          {"passed_over", {"CUPTI PM sampling: not allowed"}}};
  const Table modes = profile_modes(std::vector{record}), csv = profile_csv(std::vector{record});
  const auto cell = [](const Table& table, const char* column) {
    const auto found = std::ranges::find(table.columns, column);
    return found == table.columns.end()
               ? std::string("no such column")
               : table.rows.at(0).at(static_cast<size_t>(found - table.columns.begin()));
  };
  EXPECT_EQ(cell(modes, "SM %"), "9.0");
  EXPECT_EQ(cell(modes, "tensor %"), "4.0");
  EXPECT_EQ(cell(modes, "DRAM GB/s"), "3000.0");
  EXPECT_EQ(cell(csv, "sm_active_pct"), "9");
  EXPECT_EQ(cell(csv, "utilization_source"), "NVML GPM");
  EXPECT_EQ(cell(csv, "source"), "CUPTI 13.0");
  EXPECT_EQ(cell(csv, "status"), "success");
  const std::vector<std::string> notes = profile_notes(std::vector{record});
  EXPECT_TRUE(has(notes, "are measured by NVML GPM"));
  EXPECT_TRUE(has(notes, "is not read by CUPTI PM sampling: not allowed"));
  EXPECT_TRUE(has(profile_answers(record),
                  "multiprocessors had a warp in 9.0 % of cycles: kernels run in 90 % of the time, "
                  "and then on 10.0 % of the multiprocessors in the mean"));
}

TEST(ProfileNotes, SayWhatACpuDoesNotCountAndThatOtherWorkCameInBetween) {
  Record record = full_step();
  (*record.metrics)["cpu_events"] =
      Json{{"task_clock_ns", 22e6},
           {"elapsed_ns", 16e6},  // a mean that few long steps raised, beyond the median of 11 ms
           {"page_faults", 7.0},
           {"context_switches", 3.0},
           {"forced_switches", 2.0},
           {"unsupported", {{"cycles", "no counter here"}, {"instructions", "no counter here"}}}};
  const std::vector<std::string> answers = profile_answers(record);
  EXPECT_TRUE(has(answers,
                  "a step takes 22 ms of processor time, which is 1.38 threads at work in "
                  "the mean, with 7 page faults and 3 context switches"));
  EXPECT_TRUE(has(answers, "noise: 2 times a step other work took a processor"));
  EXPECT_TRUE(has(profile_notes(std::vector{record}),
                  "not counted: cycles, instructions (no counter here)"));
}

TEST(ProfileTables, ACsvHasALinePerFoldAndOnePerRowWithout) {
  Record failed = full_step();
  failed.status = Status::oom;
  failed.error = "too large";
  failed.metrics.reset();
  const Table table = profile_csv(std::vector<Record>{full_step(), failed});
  ASSERT_EQ(table.rows.size(), 2u + 2 + 1 + 3 + 1);
  const auto at = [&](size_t row, const char* column) {
    const auto found = std::ranges::find(table.columns, column);
    EXPECT_NE(found, table.columns.end()) << column;
    return table.rows[row].at(static_cast<size_t>(found - table.columns.begin()));
  };
  EXPECT_EQ(at(5, "by"), "kernel");
  EXPECT_EQ(at(5, "name"), "nvjet");
  EXPECT_EQ(at(5, "phase"), "backward");
  EXPECT_EQ(at(5, "invocations"), "8");
  EXPECT_EQ(at(5, "total_ms"), "6");
  EXPECT_EQ(at(5, "share_pct"), "60");
  EXPECT_EQ(at(5, "roof_pct"), "50");
  EXPECT_EQ(at(5, "prediction_error_pct"), "100");
  EXPECT_EQ(at(8, "status"), "OOM");
  EXPECT_EQ(at(8, "error"), "too large");
  EXPECT_EQ(at(8, "invocations"), "");
}

TEST(ProfileTables, FoldsAreCutAndSaySo) {
  const Table kernels = profile_folds(full_step(), "kernel", 2);
  EXPECT_EQ(kernels.rows.size(), 2u);
  EXPECT_HAS(kernels.title, "2 of 3 rows");
  for (const char* by : {"phase", "category", "scope", "kernel"})
    EXPECT_FALSE(to_text(profile_folds(full_step(), by, 10), {.width = 60}).empty());
  EXPECT_TRUE(profile_folds(Record{}, "kernel", 10).rows.empty());
}

TEST(ProfileTables, ModesStandSideBySide) {
  const std::string text =
      to_text(profile_modes(std::vector<Record>{full_step(), full_step("compiled")}));
  EXPECT_HAS(text, "host wait ms");
  EXPECT_HAS(text, "small context 128 batch 4 mixed full-step");
  Record cpu = full_step();
  cpu.metrics->at("device_time").erase("waited_for_host_ms");
  EXPECT_LACKS(to_text(profile_modes(std::vector<Record>{cpu})), "host wait");
}

TEST(ProfileSection, HasAQuestionAnswersAChartAndTables) {
  ReportInput input;
  input.records = {full_step(), full_step("compiled")};
  input.sections = {profile_section};
  const ReportSection section = profile_section(report_context(input));
  ASSERT_GE(section.sentences.size(), 2u);
  EXPECT_TRUE(section.question.ends_with('?'));
  EXPECT_FALSE(section.answer.empty());
  ASSERT_EQ(section.views.size(), 1u);
  const Chart& chart = section.views[0].charts.at(0);
  EXPECT_EQ(chart.categories.size(), 4u) << "two modes, two phases";
  EXPECT_EQ(chart.series.size(), 2u) << "gemm and softmax";
  EXPECT_EQ(section.tables.size(), 3u);
  EXPECT_TRUE(profile_section(report_context(ReportInput{})).empty());
}

// The workload that comes first in the file, and last in the alphabet.
TEST(ProfileSection, TheAnswerIsOfOneWorkload) {
  ReportInput input;
  for (const char* size : {"small", "large"})
    for (const char* mode : {"vanilla", "compiled"}) {
      Record& record = input.records.emplace_back(full_step(mode));
      record.workload["model_size"] = size;
      record.metrics->at("untraced_step_ms") =
          (size == std::string("small") ? 10 : 500) + (mode == std::string("vanilla") ? 10 : 0);
    }
  const ReportSection section = profile_section(report_context(input));
  EXPECT_HAS(section.answer, "compiled takes 10.0 ms where vanilla takes 20.0 ms");
}

TEST(ProfileSection, ModesAreComparedOnOneMachineWithOneNumberOfThreads) {
  ReportInput input;
  input.records = {full_step(), full_step("compiled"), full_step("compiled")};
  input.records[1].settings["threads"] = 2;
  input.records[2].machine.fingerprint = "another";
  const ReportSection section = profile_section(report_context(input));
  EXPECT_LACKS(section.answer, "compiled takes");
  ASSERT_EQ(section.views.size(), 3u);
  EXPECT_HAS(section.views[1].name, ", 2 threads");
  EXPECT_HAS(section.views[2].name, ", machine another");
}

TEST(ProfileSection, WholeTransformersAreComparedAtOneSizeAndPrecision) {
  ReportInput input;
  input.records = {full_step(), full_step("compiled")};
  for (Record& record : input.records) record.workload["num_params"] = 100;
  input.records[1].metrics->at("untraced_step_ms") = 5.0;
  const auto add_model = [&](const char* mode, int parameters, double ms) {
    Record& record = input.records.emplace_back();
    record.study = "model";
    record.implementation = mode;
    record.workload = {{"num_params", parameters}};
    record.series = {series_of("full_step", std::vector<double>(6, ms))};
  };
  add_model("vanilla", 100, 12);
  add_model("vanilla", 900, 120);
  add_model("compiled", 900, 60);
  EXPECT_LACKS(profile_section(report_context(input)).answer, "other way round")
      << "of 60 ms and 12 ms";
  add_model("compiled", 100, 24);
  const std::string answer = profile_section(report_context(input)).answer;
  EXPECT_HAS(answer,
             "; under Whole transformers it is the other way round, 24.0 ms against "
             "12.0 ms");
}

TEST(ProfileMetrics, AreBoundedWhateverTheNumberOfKernels) {
  Profile profile;
  profile.steps = {{.number = 0, .begin_ns = 0, .end_ns = 1'000'000}};
  constexpr uint32_t kKernels = 500;
  for (uint32_t i = 0; i < kKernels; ++i) {
    ProfiledKernel kernel{.number = i};
    kernel.phase = "forward";
    profile.kernels.push_back(kernel);
    Invocation each;
    each.work.name = "kernel_" + std::to_string(i) + std::string(5000, 'x');
    each.work.begin_ns = 100 * i;
    each.work.end_ns = 100 * i + 50;
    each.kernel = i;
    each.step = 0;
    profile.invocations.push_back(each);
  }
  const Json metrics = profile_metrics(profile);
  const Json& kernels = metrics["folds"]["kernel"];
  ASSERT_EQ(kernels.size(), kMostFolds);
  EXPECT_EQ(kernels[kMostFolds - 1]["key"].text(), kOtherFolds);
  double invocations = 0;
  for (const Json& row : kernels) invocations += row["invocations"].get<double>();
  EXPECT_EQ(invocations, kKernels);
  EXPECT_LT(metrics.dump().size(), 200'000u);
}

}  // namespace
}  // namespace ridgeline::profile_study_test
