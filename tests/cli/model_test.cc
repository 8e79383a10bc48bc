// ridgeline model as a user runs it, with a model of a few thousand parameters.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/csv.h"
#include "cli/run_ridgeline.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

Arguments tiny_model(const Arguments& more, const std::string& warmups = "1") {
  return Arguments{"model", "--device", "cpu", "--threads", "1"} +
         Arguments{"--d-model", "16", "--d-ff", "24", "--layers", "1", "--heads", "2"} +
         Arguments{"--vocabulary", "40", "--batch-size", "2", "--context-length", "8"} +
         Arguments{"--warmup-steps", warmups, "--measure-steps", "3"} + more;
}

ReadResult model_results(const Sandbox& sandbox) {
  return read_results(sandbox / "results/model/model.jsonl");
}

Csv model_table(const Sandbox& sandbox) {
  return parse_csv(read_text(sandbox / "results/model/model.csv"));
}

TEST(Model, WritesRecordsAndOneRowForBothModes) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_model({"--output", "more.md"}));
  ASSERT_EQ(run.exit_code, 0) << run.err << run.out;
  const ReadResult results = model_results(sandbox);
  EXPECT_TRUE(results.problems.empty());
  ASSERT_EQ(results.records.size(), 2u);
  for (const Record& record : results.records) {
    EXPECT_EQ(record.status, Status::ok) << record.error;
    for (const char* series : {"forward", "backward", "fwd_bwd", "full_step"})
      EXPECT_EQ(record.find_series(series)->samples_ms.size(), 3u) << series;
    for (size_t i = 0; i < 3; ++i)
      EXPECT_LT(record.find_series("backward")->samples_ms[i],
                record.find_series("fwd_bwd")->samples_ms[i])
          << "a part of the same step";
    EXPECT_TRUE(record.verification.checked);
    EXPECT_TRUE(contains(record.command, "ridgeline model --device cpu")) << record.command;
  }
  const Csv csv = model_table(sandbox);
  ASSERT_EQ(csv.rows.size(), 1u);
  for (const char* column :
       {"forward_speedup", "backward_speedup", "fwd_bwd_speedup", "full_step_speedup",
        "backward_vanilla_mean_ms", "backward_vanilla_std_ms", "backward_compiled_mean_ms",
        "backward_compiled_std_ms", "compile_seconds", "tokens_per_s_compiled"})
    EXPECT_GT(std::stod(csv.rows[0].at(column)), 0) << column;
  EXPECT_TRUE(contains(run.out, "MFU is")) << "the convention is printed";
  EXPECT_TRUE(contains(read_text(sandbox / "more.md"), "full_step_speedup"));
}

// Runs what a record says it came from, and gives the record of that.
Record run_again(const Record& record) {
  Arguments again;
  std::string word;
  for (const char c : record.command + " ")
    if (c == ' ')
      again.push_back(std::exchange(word, {}));
    else
      word += c;
  again.erase(again.begin());
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run(again).exit_code, 0) << record.command;
  return model_results(sandbox).records.at(0);
}

TEST(Model, TheCommandOfARowRunsThatRowAgain) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(tiny_model({"--mode", "vanilla", "--scenario", "forward"})).exit_code, 0);
  const Record first = model_results(sandbox).records.at(0);
  EXPECT_EQ(workload_key(run_again(first)), workload_key(first));
}

// Of 12 and 24 layers, and narrow.
const Arguments kNarrowSizes = {"--model-size",
                                "small",
                                "medium",
                                "--d-model",
                                "16",
                                "--d-ff",
                                "24",
                                "--heads",
                                "2",
                                "--vocabulary",
                                "40",
                                "--device",
                                "cpu",
                                "--context-length",
                                "8"};

TEST(Model, SizesThatAreOverriddenInPartStayApart) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(
      Arguments{"model", "--mode", "vanilla", "--scenario", "forward", "--measure-steps", "1"} +
      kNarrowSizes);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Record> records = model_results(sandbox).records;
  ASSERT_EQ(records.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(records[i].workload["layers"], i == 0 ? 12 : 24);
    EXPECT_EQ(workload_key(run_again(records[i])), workload_key(records[i]));
  }
  const Csv csv = model_table(sandbox);
  EXPECT_NE(csv.rows.at(0).at("model_size"), csv.rows.at(1).at("model_size"));
  ASSERT_EQ(sandbox.run(Arguments{"memory", "--scenario", "forward"} + kNarrowSizes).exit_code, 0);
  size_t accounts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(sandbox / "results/model"))
    accounts += entry.path().filename().string().starts_with("memory_analysis_") ? 1 : 0;
  EXPECT_EQ(accounts, 2u);
}

TEST(Model, ResumeRunsOnlyWhatIsMissing) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(tiny_model({"--mode", "vanilla"})).exit_code, 0);
  const Arguments both = tiny_model({"--resume"});
  ASSERT_EQ(sandbox.run(both).exit_code, 0);
  ASSERT_EQ(sandbox.run(both).exit_code, 0);
  expect_each_once(model_results(sandbox).records, 2);
}

TEST(Model, WhatIsPredictedNotToFitIsOutOfMemoryUntried) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"model", "--device", "cpu", "--memory-budget", "64MiB",
                                    "--context-length", "128", "--precision", "mixed"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const Record& record : model_results(sandbox).records) {
    EXPECT_EQ(record.status, Status::oom);
    EXPECT_TRUE(contains(record.error, "full-step: the predicted peak of ")) << record.error;
    EXPECT_TRUE(record.series.empty());
  }
  const Csv csv = model_table(sandbox);
  EXPECT_EQ(csv.rows.at(0).at("status_compiled"), "OOM");
  EXPECT_EQ(csv.rows.at(0).at("num_params"), "128625408");
  EXPECT_EQ(csv.rows.at(0).at("full_step_vanilla_ms"), "");
}

TEST(Model, WarmUpMayBeLeftOut) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(tiny_model({"--scenario", "full-step", "--mode", "vanilla"}, "0"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(model_results(sandbox).records.at(0).protocol.warmups, 0);
  const Record record = model_results(sandbox).records.at(0);
  const Series& steps = *record.find_series("full_step");
  EXPECT_TRUE(contains(run.out, "without warm-ups")) << run.out;
  for (const double ms : {steps.samples_ms.front(), steps.statistics.mean_ms})
    EXPECT_TRUE(contains(run.out, fmt::format(" {:.3f} ", ms))) << ms << '\n' << run.out;
  EXPECT_FALSE(contains(sandbox.run(tiny_model({"--mode", "vanilla"})).out, "without warm-ups"));
}

TEST(Model, DryRunListAndExplainRunNothing) {
  const Sandbox sandbox;
  const Finished dry = sandbox.run({"model", "--device", "cpu", "--dry-run", "--model-size",
                                    "small", "2.7B", "--context-length", "128"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_TRUE(contains(dry.out, "2.7B context=128 batch=4 fp32, compiled")) << dry.out;
  EXPECT_TRUE(contains(dry.out, "3406.81")) << dry.out;
  const Finished list = sandbox.run({"model", "--list"});
  EXPECT_EQ(list.exit_code, 0);
  for (const char* part : {"10B", "fwd-bwd", "compiled", "mixed"})
    EXPECT_TRUE(contains(list.out, part)) << part;
  const Finished explained = sandbox.run(tiny_model({"--dry-run", "--explain"}));
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  for (const char* part : {"became one attention node", "kernels instead of", "not fused", "roofline"})
    EXPECT_TRUE(contains(explained.out, part)) << part;
  EXPECT_TRUE(sandbox.is_empty());
}

// Every function that --explain names is a file, and the other way round.
TEST(Model, DumpsTheKernelsThatExplainNames) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_model(
      {"--mode", "compiled", "--scenario", "full-step", "--explain", "--dump-kernels", "dump"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  if (contains(run.err, "falls back to eager")) GTEST_SKIP() << "no C++ compiler on this machine";
  const size_t at = run.out.find("generated code: ");
  ASSERT_NE(at, std::string::npos) << run.out;
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(sandbox / "dump")) {
    const std::string function = entry.path().stem().string();
    EXPECT_NE(run.out.find(function + ": kernel ", at), std::string::npos) << function;
    EXPECT_TRUE(contains(read_text(entry.path()), "void " + function + "(")) << function;
    ++files;
  }
  EXPECT_GT(files, 5u);
  EXPECT_NE(run.out.find(std::to_string(files) + " functions serve", at), std::string::npos);
}

TEST(Model, WithoutACompilerSaysSoAndCountsWhatRan) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(tiny_model({"--mode", "compiled", "--scenario", "full-step"}),
                  {.environment = {{"CXX", "/nowhere/c++"}, {"RIDGELINE_CACHE_DIR", "off"}}});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "falls back to eager")) << run.err;
  const std::string told = "compiled ran eagerly: no C++ compiler was found";
  EXPECT_TRUE(contains(run.out, told)) << run.out;
  const Record record = model_results(sandbox).records.at(0);
  const Json of = record.metrics.value()["full_step"];
  EXPECT_EQ(of["launches"], of["eager_launches"]);
  EXPECT_EQ(of["predicted_peak_bytes"], of["peak_bytes"]) << "of what ran, not of the plan";
  EXPECT_EQ(record.memory.predicted_peak, record.memory.peak);
  const std::string error = model_table(sandbox).rows.at(0).at("error");
  EXPECT_TRUE(contains(error, "compiled: ran eagerly: no C++ compiler was found")) << error;
  EXPECT_FALSE(contains(error, "\n")) << error;
}

TEST(Model, SaysOnATerminalWhatALongRowIsAt) {
  const Sandbox sandbox;
  const Arguments row = tiny_model({"--mode", "compiled", "--scenario", "full-step"});
  RunOptions watched{
      .environment = {{"TERM", "xterm"}, {"RIDGELINE_CACHE_DIR", (sandbox / "cache").string()}},
      .stderr_is_terminal = true};
  const Finished shown = sandbox.run(row, watched);
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  size_t at = 0;
  for (const char* stage : {"trace", "passes", "plan", "parameters", "first step", "measuring"}) {
    at = shown.err.find(std::string("full-step: ") + stage, at);
    ASSERT_NE(at, std::string::npos) << stage << '\n' << shown.err;
  }
  if (!contains(shown.err, "falls back to eager")) {
    EXPECT_TRUE(contains(shown.err, " kernels compiled")) << shown.err;
  }
  watched.environment["TERM"] = "dumb";
  EXPECT_FALSE(contains(sandbox.run(row, watched).err, "measuring"));
  EXPECT_FALSE(contains(sandbox.run(row).err, "measuring")) << "a pipe";
}

TEST(Model, TheLadderTellsWhatEachRungBrought) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(
      tiny_model({"--mode", "vanilla,fused,flash,compiled", "--scenario", "full-step"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "the ladder")) << run.out;
  const std::string csv = read_text(sandbox / "results/model/ladder.csv");
  for (const char* rung : {",vanilla,", ",fused,", ",flash,", ",compiled,"})
    EXPECT_TRUE(contains(csv, rung)) << csv;
}

TEST(Model, BadUsageIsExit2AndUnservedDtypesExit4) {
  const Sandbox sandbox;
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"--model-size", "tiny"}, "'tiny' is not a model size"},
      {{"--mode", "eager"}, "vanilla, fused, flash, compiled"},
      {{"--precision", "fp8"}, "'fp8' is not a precision"},
      {{"--scenario", "backward"}, "fwd-bwd"},
      {{"--optimizer", "sgd"}, "cs336, pytorch"},
      {{"--loss-scale", "0"}, "neither dynamic nor a number above 0"},
      {{"--loss-scale", "2", "--precision", "mixed"}, "add --precision mixed-fp16"},
      {{"--output", "x.png"}, ".csv"},
      {{"--output", "x.png", "--dry-run"}, ".csv"}};
  for (const auto& [more, message] : cases) {
    const Finished run = sandbox.run(tiny_model(more));
    EXPECT_EQ(run.exit_code, 2) << more[1];
    EXPECT_TRUE(contains(run.err, message)) << run.err;
  }
  EXPECT_EQ(sandbox.run({"model", "--device", "cpu", "--heads", "7"}).exit_code, 2);
  EXPECT_TRUE(sandbox.is_empty());
  EXPECT_EQ(sandbox.run(tiny_model({"--precision", "tf32"})).exit_code, 4);
}

}  // namespace
}  // namespace ridgeline
