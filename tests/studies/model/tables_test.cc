#include "studies/model/tables.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "measure/test_support.h"

namespace ridgeline::model_study_test {
namespace {

Record model_record(const std::string& mode, double ms, Status status = Status::ok) {
  Record record;
  record.study = "model";
  record.time = "2026-01-31T12:34:56Z";
  record.implementation = mode;
  record.device = "cpu";
  record.workload = {{"model_size", "small"},   {"context_length", 128}, {"batch_size", 4},
                     {"precision", "mixed"},    {"d_model", 768},        {"layers", 12},
                     {"num_params", 128625408}, {"vocabulary", 10000}};
  record.settings = {{"scenarios", "forward,fwd-bwd,full-step"}};
  record.status = status;
  record.memory.predicted_peak = Bytes{3 << 20};
  record.protocol.warmups = 5;
  if (status == Status::unsupported) {
    record.error = "not here";
    return record;
  }
  record.memory.peak = Bytes{2 << 20};
  Json metrics = Json::object();
  double factor = 1;
  for (const char* scenario : {"forward", "fwd_bwd", "full_step"}) {
    if (status == Status::oom && factor > 2) continue;
    record.series.push_back(series_of(scenario, {factor * ms, factor * ms, factor * ms}));
    metrics[scenario] = {{"tokens_per_s", 1000 / factor},
                         {"mfu", 0.25},
                         {"launches", 50},
                         {"compile_seconds", 0.5},
                         {"peak_bytes", 1 << 20}};
    ++factor;
  }
  metrics["model_flops_are"] = "six times N";
  metrics["mfu_is"] = "a share";
  record.metrics = metrics;
  if (status == Status::oom) record.error = "full-step: the predicted peak is above the budget";
  return record;
}

std::string cell(const Table& table, size_t row, const std::string& column) {
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i] == column) return table.rows.at(row).at(i);
  ADD_FAILURE() << "no column " << column;
  return {};
}

TEST(ModelCsv, BeginsWithTheColumnsOfTheStudy) {
  const Table table = model_csv(std::vector<Record>{});
  const std::vector<std::string> expected = {
      "model_size",          "context_length",      "num_params",           "num_params_millions",
      "forward_vanilla_ms",  "forward_compiled_ms", "forward_speedup",      "fwd_bwd_vanilla_ms",
      "fwd_bwd_compiled_ms", "fwd_bwd_speedup",     "full_step_vanilla_ms", "full_step_compiled_ms",
      "full_step_speedup"};
  ASSERT_GE(table.columns.size(), expected.size());
  EXPECT_EQ(std::vector<std::string>(table.columns.begin(), table.columns.begin() + 13), expected);
}

TEST(ModelCsv, PutsVanillaAndCompiledInOneRow) {
  const Table table =
      model_csv(std::vector{model_record("vanilla", 6), model_record("compiled", 2)});
  ASSERT_EQ(table.rows.size(), 1u);
  for (const auto& [column, value] : {std::pair{"model_size", "small"},
                                      {"num_params", "128625408"},
                                      {"num_params_millions", "128.63"},
                                      {"forward_vanilla_ms", "6"},
                                      {"forward_compiled_ms", "2"},
                                      {"forward_speedup", "3"},
                                      {"full_step_vanilla_ms", "18"},
                                      {"full_step_compiled_ms", "6"},
                                      {"peak_memory_mib_vanilla", "2"},
                                      {"predicted_memory_mib_compiled", "3"},
                                      {"tokens_per_s_compiled", "333.333"},
                                      {"mfu_vanilla", "0.25"},
                                      {"compile_seconds", "1.5"},
                                      {"launches_compiled", "50"},
                                      {"precision", "mixed"},
                                      {"status_vanilla", "success"},
                                      {"error", ""}})
    EXPECT_EQ(cell(table, 0, column), value) << column;
}

TEST(ModelCsv, ModelsThatDifferInAnythingHaveRowsOfTheirOwn) {
  Record longer = model_record("compiled", 2);
  longer.workload["context_length"] = 256;
  const Table table = model_csv(std::vector{model_record("vanilla", 6), longer});
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(cell(table, 0, "forward_compiled_ms"), "");
  EXPECT_EQ(cell(table, 0, "forward_speedup"), "");
  EXPECT_EQ(cell(table, 0, "status_compiled"), "");
}

TEST(ModelCsv, RowsOfOtherMachinesOrSettingsAreNotPaired) {
  Record elsewhere = model_record("compiled", 2);
  elsewhere.machine.fingerprint = "another";
  Record with_more_threads = model_record("compiled", 3);
  with_more_threads.settings["threads"] = 8;
  const Table table =
      model_csv(std::vector{model_record("vanilla", 6), elsewhere, with_more_threads});
  ASSERT_EQ(table.rows.size(), 3u);
  for (size_t row = 0; row < 3; ++row) EXPECT_EQ(cell(table, row, "forward_speedup"), "");
}

TEST(ModelCsv, OtherModesHaveColumnsAfterThoseOfVanillaAndCompiled) {
  const std::vector<Record> records = {model_record("fused", 6),
                                       model_record("flash", 2, Status::oom)};
  const Table table = model_csv(records);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(cell(table, 0, "forward_vanilla_ms"), "");
  EXPECT_EQ(cell(table, 0, "full_step_fused_ms"), "18");
  EXPECT_EQ(cell(table, 0, "forward_flash_ms"), "2");
  EXPECT_EQ(cell(table, 0, "tokens_per_s_fused"), "333.333");
  EXPECT_EQ(cell(table, 0, "status_flash"), "OOM");
  EXPECT_EQ(cell(table, 0, "error"), "flash: full-step: the predicted peak is above the budget");
  EXPECT_EQ(table.columns.back(), "status_flash");
}

TEST(ModelSummary, ShowsOtherModesInPlaceOfTheTwoThatWereNotRun) {
  const std::vector<Record> records = {model_record("fused", 6),
                                       model_record("flash", 2, Status::oom)};
  const Table table = model_summary(records);
  ASSERT_EQ(table.rows.size(), 3u) << "one per scenario";
  EXPECT_EQ(cell(table, 0, "fused"), "6.000");
  EXPECT_EQ(cell(table, 2, "flash"), "OOM");
  EXPECT_EQ(cell(table, 0, "launches"), "50 -> 50");
  EXPECT_EQ(cell(table, 0, "ktokens/s"), "1.00");
  EXPECT_FALSE(has_column(table, "vanilla"));
  EXPECT_FALSE(has_column(table, "speedup"));
  const std::vector<std::string> notes = model_notes(records);
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
    return note.find("flash: OOM: full-step") != std::string::npos;
  }));
}

TEST(ModelCsv, WhatWasNotMeasuredIsEmptyNeverZero) {
  const Table table = model_csv(std::vector{model_record("vanilla", 6, Status::oom),
                                            model_record("compiled", 2, Status::unsupported)});
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(cell(table, 0, "forward_vanilla_ms"), "6") << "that one fitted";
  EXPECT_EQ(cell(table, 0, "full_step_vanilla_ms"), "");
  EXPECT_EQ(cell(table, 0, "full_step_speedup"), "");
  EXPECT_EQ(cell(table, 0, "forward_compiled_ms"), "");
  EXPECT_EQ(cell(table, 0, "compile_seconds"), "");
  EXPECT_EQ(cell(table, 0, "predicted_memory_mib_vanilla"), "3");
  EXPECT_EQ(cell(table, 0, "status_vanilla"), "OOM");
  EXPECT_EQ(cell(table, 0, "status_compiled"), "unsupported");
  EXPECT_HAS(cell(table, 0, "error"), "compiled: not here");
}

TEST(ModelCsv, WrongRowsHaveNoTimes) {
  const Table table = model_csv(std::vector{model_record("vanilla", 6, Status::wrong)});
  EXPECT_EQ(cell(table, 0, "forward_vanilla_ms"), "");
  EXPECT_EQ(cell(table, 0, "status_vanilla"), "wrong");
}

TEST(ModelSummary, SaysWhyATimeIsMissing) {
  const Table table = model_summary(
      std::vector{model_record("vanilla", 6, Status::oom), model_record("compiled", 2)});
  ASSERT_EQ(table.rows.size(), 3u) << "one per scenario";
  EXPECT_EQ(cell(table, 0, "speedup"), "3.00x");
  EXPECT_EQ(cell(table, 2, "vanilla"), "OOM");
  EXPECT_EQ(cell(table, 2, "compiled"), "6.000");
  EXPECT_EQ(cell(table, 2, "speedup"), "");
  EXPECT_EQ(cell(table, 0, "launches"), "50 -> 50");
}

TEST(ModelSummary, ShowsOnlyScenariosThatWereAskedFor) {
  Record record = model_record("vanilla", 6, Status::unsupported);
  record.settings["scenarios"] = "fwd-bwd";
  const Table table = model_summary(std::vector{record});
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(cell(table, 0, "scenario"), "fwd_bwd");
  EXPECT_EQ(cell(table, 0, "compiled"), "-");
}

Record with_busy_time(Record record, double share) {
  for (const Series& series : record.series) {
    Json& metrics = (*record.metrics)[series.name];
    metrics["busy_ms"] = share * series.statistics.median_ms;
    metrics["host_bound"] = share < 0.8;
  }
  (*record.metrics)["busy_is"] = "busy: what the GPU needs";
  return record;
}

TEST(ModelCsv, HasBusyTimesTheirRatioAndWhatIsHostBound) {
  const Table table = model_csv(std::vector{with_busy_time(model_record("vanilla", 6), 0.25),
                                            with_busy_time(model_record("compiled", 1), 1)});
  for (const auto& [column, value] : {std::pair{"forward_speedup", "6"},
                                      {"forward_vanilla_busy_ms", "1.5"},
                                      {"forward_compiled_busy_ms", "1"},
                                      {"forward_kernel_speedup", "1.5"},
                                      {"forward_host_bound", "vanilla"}})
    EXPECT_EQ(cell(table, 0, column), value) << column;
  const Table without = model_csv(std::vector{model_record("vanilla", 6)});
  for (const char* column :
       {"forward_vanilla_busy_ms", "forward_kernel_speedup", "forward_host_bound"})
    EXPECT_EQ(cell(without, 0, column), "") << column;
}

TEST(ModelSummary, HasTheRatioOfKernelsBesideThatOfTheClock) {
  const std::vector records = {with_busy_time(model_record("vanilla", 6), 0.25),
                               with_busy_time(model_record("compiled", 1), 1)};
  const Table table = model_summary(records);
  for (const auto& [column, value] : {std::pair{"speedup", "6.00x"},
                                      {"busy vanilla", "1.500"},
                                      {"busy compiled", "1.000"},
                                      {"speedup kernels", "1.50x"},
                                      {"host-bound", "vanilla"},
                                      {"MiB vanilla", "1.0"}})
    EXPECT_EQ(cell(table, 0, column), value) << column;
  const Table cpu = model_summary(std::vector{model_record("vanilla", 6)});
  EXPECT_EQ(std::count(cpu.columns.begin(), cpu.columns.end(), "host-bound"), 0);
}

TEST(ModelNotes, SayThatTheClockMeasuresTheHostWhereVanillaIsHostBound) {
  const auto notes = model_notes(std::vector{with_busy_time(model_record("vanilla", 6), 0.25),
                                             with_busy_time(model_record("compiled", 1), 1)});
  const auto found = std::find_if(notes.begin(), notes.end(), [](const std::string& note) {
    return note.starts_with(
        "Host-bound: small context 128 mixed: forward: vanilla keeps the GPU "
        "busy for 1.5 of 6 ms, so 6.00x by the clock measures the host, and "
        "the kernels' own ratio is 1.50x; fwd_bwd: ");
  });
  EXPECT_NE(found, notes.end()) << ::testing::PrintToString(notes);
  for (const std::string& note : model_notes(std::vector{
           with_busy_time(model_record("vanilla", 6), 0.9), model_record("compiled", 2)}))
    EXPECT_FALSE(note.starts_with("Host-bound")) << note;
}

Record with_backward(Record record, const std::vector<double>& samples_ms) {
  record.series.push_back(series_of("backward", samples_ms));
  return record;
}

TEST(ModelCsv, HasBackwardAloneWithMeanAndDeviation) {
  const Table table = model_csv(std::vector{with_backward(model_record("vanilla", 6), {7, 8, 12}),
                                            with_backward(model_record("compiled", 2), {2, 2, 2})});
  for (const auto& [column, value] : {std::pair{"backward_vanilla_ms", "8"},
                                      {"backward_compiled_ms", "2"},
                                      {"backward_speedup", "4"},
                                      {"backward_vanilla_mean_ms", "9"},
                                      {"backward_vanilla_std_ms", "2.64575"},
                                      {"backward_compiled_mean_ms", "2"},
                                      {"backward_compiled_std_ms", "0"},
                                      {"fwd_bwd_vanilla_mean_ms", "12"},
                                      {"forward_compiled_std_ms", "0"}})
    EXPECT_EQ(cell(table, 0, column), value) << column;
  EXPECT_EQ(cell(model_csv(std::vector{model_record("vanilla", 6)}), 0, "backward_vanilla_ms"), "")
      << "a record of an earlier version";
}

TEST(ModelSummary, HasARowForBackwardAloneAndIntervals) {
  Record vanilla = with_backward(model_record("vanilla", 6), {8, 8, 8, 8, 8, 8.8});
  const Table table = model_summary(std::vector{vanilla, model_record("compiled", 2)});
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_EQ(cell(table, 1, "scenario"), "backward");
  EXPECT_EQ(cell(table, 1, "vanilla"), "8.000");
  EXPECT_EQ(cell(table, 1, "+-% v"), "5.0");
  EXPECT_EQ(cell(table, 0, "+-% v"), "") << "three samples are too few";
  EXPECT_EQ(cell(table, 1, "MiB vanilla"), "") << "memory is that of fwd_bwd";
}

TEST(ModelNotes, GiveTheConventionAndEveryFailure) {
  const auto notes = model_notes(
      std::vector{model_record("vanilla", 6), model_record("compiled", 2, Status::unsupported)});
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_HAS(notes[0], "compiled: unsupported: not here");
  EXPECT_TRUE(notes[1].starts_with("Too few samples in 1 row")) << notes[1];
  EXPECT_EQ(notes[2], "MFU is a share; six times N");
}

TEST(ModelReport, RecordsWithOddContentsDoNoHarm) {
  Record odd = model_record("vanilla", 6);
  odd.metrics = Json::array({1, 2});
  odd.workload["num_params"] = "many";
  odd.settings = Json::object();
  Record other = model_record("compiled", 6);
  other.metrics = Json{{"forward", 3}, {"full_step", {{"mfu", "high"}}}};
  Record foreign = model_record("something", 6);
  const std::vector records = {odd, other, foreign};
  EXPECT_EQ(model_csv(records).rows.size(), 2u);
  model_summary(records);
  model_notes(records);
}

TEST(ModelFirstSteps, StandBesideMeanAndMedianWhereNothingWarmedUp) {
  Record cold = model_record("compiled", 1);
  cold.protocol.warmups = 0;
  cold.series = {series_of("fwd_bwd", {9, 1, 2})};
  const Table table = model_first_steps(std::vector<Record>{model_record("vanilla", 1), cold});
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(cell(table, 0, "mode"), "compiled");
  EXPECT_EQ(cell(table, 0, "scenario"), "fwd_bwd");
  EXPECT_EQ(cell(table, 0, "first"), "9.000");
  EXPECT_EQ(cell(table, 0, "mean"), "4.000");
  EXPECT_EQ(cell(table, 0, "median"), "2.000");
  EXPECT_EQ(cell(table, 0, "first/median"), "4.50x");
}

TEST(ModelFirstSteps, SayWhatTheFirstSpentItsTimeOn) {
  Record cold = model_record("compiled", 1);
  cold.protocol.warmups = 0;
  cold.series = {series_of("fwd_bwd", {9, 2, 2})};
  (*cold.metrics)["fwd_bwd"]["first_steps"] = Json::array({{{"ms", 9},
                                                            {"setup_ms", 4},
                                                            {"allocation_ms", 1},
                                                            {"allocated_bytes", 3 << 20},
                                                            {"page_faults", 768},
                                                            {"system_ms", 1.5}}});
  const Table table = model_first_steps(std::vector<Record>{cold});
  EXPECT_EQ(cell(table, 0, "setup ms"), "4.000");
  EXPECT_EQ(cell(table, 0, "memory ms"), "1.000");
  EXPECT_EQ(cell(table, 0, "page faults"), "768");
  const std::vector<std::string> notes = model_first_step_notes(std::vector<Record>{cold});
  ASSERT_EQ(notes.size(), 1u);
  for (const char* part :
       {"takes 9 ms the first time", "2 ms by its median", "The 7 ms more are",
        "4 ms for compiling", "1 ms for asking for 3 MiB", "2 ms for the rest", "768 pages"})
    EXPECT_HAS(notes[0], part) << part << '\n' << notes[0];
  EXPECT_HAS(notes[0], "cold caches and clocks. Tracing");
  cold.disturbance = Disturbance{.window_s = 1, .processors = 2, .other_cores = 1.9};
  EXPECT_HAS(
      model_first_step_notes(std::vector<Record>{cold})[0],
      "cold caches and clocks, and other work: other processes used 1.9 of 2 processors. Tracing");
}

TEST(ModelReport, TellsTheLossScaleAndWhatFp16LosesWithoutOne) {
  Record scaled = model_record("compiled", 1);
  (*scaled.metrics)["full_step"]["loss_scale"] = 32768;
  (*scaled.metrics)["full_step"]["skipped_steps"] = 1;
  (*scaled.metrics)["fwd_bwd"]["underflow"] =
      Json{{"tensor", "d_lm_head.weight"}, {"share", 0.25}, {"scale", 65536}};
  const std::vector records = {scaled};
  const Table csv = model_csv(records);
  EXPECT_EQ(cell(csv, 0, "loss_scale_compiled"), "32768");
  EXPECT_EQ(cell(csv, 0, "skipped_steps_compiled"), "1");
  EXPECT_EQ(cell(csv, 0, "loss_scale_vanilla"), "");
  const Table summary = model_summary(records);
  for (size_t row = 0; row < summary.rows.size(); ++row) {
    const bool trains = cell(summary, row, "scenario") == "full_step";
    EXPECT_EQ(cell(summary, row, "loss scale"), trains ? "32768" : "");
    EXPECT_EQ(cell(summary, row, "skipped"), trains ? "1" : "");
  }
  std::string notes;
  for (const std::string& note : model_notes(records)) notes += note + '\n';
  EXPECT_HAS(notes, "the loss scale ended at 32768, 1 step was skipped");
  EXPECT_HAS(notes, "d_lm_head.weight loses most in fp16: without a scale 25 % of it");
}

TEST(ModelFirstSteps, OneSampleHasNoStandardDeviation) {
  Record cold = model_record("compiled", 1);
  cold.protocol.warmups = 0;
  cold.series = {series_of("forward", {3})};
  const Table table = model_first_steps(std::vector<Record>{cold});
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(cell(table, 0, "mean"), "3.000");
  EXPECT_EQ(cell(table, 0, "std"), "");
}

TEST(ModelCsv, SaysThatCompiledRanEagerly) {
  Record compiled = model_record("compiled", 1);
  (*compiled.metrics)["full_step"]["ran_eagerly_because"] = "no compiler\n  next step: install one";
  const Table table = model_csv(std::vector<Record>{model_record("vanilla", 1), compiled});
  EXPECT_EQ(cell(table, 0, "error"), "compiled: ran eagerly: no compiler; next step: install one");
  EXPECT_EQ(cell(table, 0, "status_compiled"), "success") << "its figures stand";
  (*compiled.metrics)["full_step"]["ran_eagerly_because"] = "no compiler\n";
  EXPECT_EQ(cell(model_csv(std::vector<Record>{compiled}), 0, "error"),
            "compiled: ran eagerly: no compiler");
}

// Models whose names are alike, on one thread and on two.
TEST(ModelReport, TheAnswerIsOfOneModelInOneSetting) {
  ReportInput input;
  for (const int threads : {1, 2})
    for (const int d_ff : {512, 2048}) {
      Record& record = input.records.emplace_back(
          model_record(threads == 1 ? "vanilla" : "flash", threads == 1 ? 6 : 2));
      record.workload["model_size"] = "custom";
      record.workload["d_ff"] = d_ff;
      record.settings["threads"] = threads;
    }
  EXPECT_EQ(model_section(report_context(input)).answer, "") << "no rung is beside another";
  input.records.push_back(input.records[1]);
  input.records.back().implementation = "flash";
  EXPECT_TRUE(model_section(report_context(input))
                  .answer.starts_with("Model 12 layers, d 768, context 128, d ff 2048, 1 thread: "))
      << model_section(report_context(input)).answer;
}

}  // namespace
}  // namespace ridgeline::model_study_test
