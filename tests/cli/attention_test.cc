// What a sweep of the attention study leaves: tables on stdout, a CSV, records that can be
// believed.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <wordexp.h>

#include "cli/csv.h"
#include "cli/run_ridgeline.h"
#include "support/attention_columns.h"

namespace ridgeline {
namespace {

std::vector<int> sequence_lengths(const std::vector<Record>& records) {
  std::vector<int> lengths;
  for (const Record& record : records) lengths.push_back(record.workload["seq_len"].get<int>());
  return lengths;
}

// As a shell would split it, without the program's name.
Arguments arguments_of(const std::string& command) {
  wordexp_t words = {};
  if (wordexp(command.c_str(), &words, WRDE_NOCMD | WRDE_UNDEF) != 0) return {"cannot be split"};
  const Arguments arguments(words.we_wordv + 1, words.we_wordv + words.we_wordc);
  wordfree(&words);
  return arguments;
}

TEST(Attention, ListsWithSpacesAndWithCommasAreTheSameRows) {
  const Sandbox spaces, commas;
  const Arguments common = {"--d-model", "8", "--impl"};
  const Finished one =
      spaces.run(tiny_attention(common) + Arguments{"naive", "flash", "--seq-len", "16", "32"});
  const Finished two =
      commas.run(tiny_attention(common) + Arguments{"naive,flash", "--seq-len", "16,32"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  ASSERT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(sequence_lengths(spaces.results().records), (std::vector{16, 16, 32, 32}));
  EXPECT_EQ(times_recorded(spaces.results().records), times_recorded(commas.results().records));
}

TEST(Attention, DryRunShowsTheRowsAndNeitherRunsNorWritesThem) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"attention", "--dry-run", "--memory-budget", "1GiB"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "60 rows would run")) << run.out;
  EXPECT_TRUE(contains(run.out, "naive S=16384 d=128 batch=8 fp32")) << run.out;
  EXPECT_TRUE(sandbox.is_empty());
}

// On a GPU that stands in for one; without NVRTC its rows are described but do not run.
TEST(Attention, DeterministicGradientsTakeTwoPasses) {
  const Sandbox sandbox;
  const TempDir libraries;
  std::filesystem::create_symlink(FAKE_GPU, libraries / "libcuda.so.1");
  RunOptions options;
  options.environment = {{"RIDGELINE_CUDA_LIBRARIES", libraries.path().string()},
                         {"RIDGELINE_CACHE_DIR", "off"}};
  const Arguments attention = {"attention",      "--device",  "cuda", "--deterministic", "--impl",
                               "flash,compiled", "--seq-len", "16",   "--d-model",       "16"};
  const Arguments kernel = {"kernel",     "--device", "cuda",      "--deterministic",
                            "--backward", "--shape",  "1,1,16,16", "--dtype",
                            "fp32",       "--mode",   "hot"};
  for (const Arguments& refused : {attention + Arguments{"--backward", "single-pass"},
                                   kernel + Arguments{"--backward-algorithm", "single-pass"}}) {
    const Finished run = sandbox.run(refused, options);
    EXPECT_EQ(run.exit_code, 2) << run.out;
    EXPECT_TRUE(contains(run.err, "--deterministic")) << run.err;
  }
  EXPECT_TRUE(sandbox.is_empty());
  sandbox.run(attention, options);
  sandbox.run(kernel, options);
  std::vector<Record> records = sandbox.results().records;
  records.push_back(read_results(sandbox / "results/kernel/kernel.jsonl").records.at(0));
  ASSERT_EQ(records.size(), 3u);
  for (const Record& record : records) EXPECT_EQ(record.settings["backward"], "two-pass");
}

TEST(Attention, HeadsThatAreTooWideForFlashDoNotEndTheSweep) {
  const Sandbox sandbox;
  const Arguments rows =
      tiny_attention({"--impl", "naive,flash", "--d-model", "320,16", "--seq-len", "16"});
  const Finished dry = sandbox.run(rows + Arguments{"--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_TRUE(contains(dry.out, "unsupported")) << dry.out;
  const Finished run = sandbox.run(rows);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Record> records = sandbox.results().records;
  ASSERT_EQ(records.size(), 4u);
  for (const Record& record : records)
    EXPECT_EQ(record.status, record.implementation == "flash" && record.workload["d_model"] == 320
                                 ? Status::unsupported
                                 : Status::ok)
        << record.error;
}

// Files for workers of others are made when there is one.
TEST(Attention, WithoutPeersNoTemporaryFolderIsMade) {
  const Sandbox sandbox;
  RunOptions options;
  options.environment = {{"TMPDIR", (sandbox / "not there").string()}};
  const Finished run = sandbox.run(
      tiny_attention({"--impl", "naive", "--d-model", "16", "--seq-len", "16"}), options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(Attention, DryRunLeavesEarlierResultsAlone) {
  const Sandbox sandbox;
  write_text(sandbox.attention("attention.jsonl"), "earlier\n");
  EXPECT_EQ(sandbox.run({"attention", "--dry-run", "--seq-len", "16"}).exit_code, 0);
  EXPECT_EQ(read_text(sandbox.attention("attention.jsonl")), "earlier\n");
}

TEST(Attention, TheCsvHasTheDocumentedColumnsOfOneImplementationToo) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(tiny_attention({"--impl", "naive", "--seq-len", "16", "--d-model", "8"}))
                .exit_code,
            0);
  const Csv csv = parse_csv(read_text(sandbox.attention("attention.csv")));
  EXPECT_EQ(csv.columns, testing::kAttentionColumns);
  ASSERT_EQ(csv.rows.size(), 1u);
  for (const auto& [column, value] : {std::pair{"heads", "1"},
                                      {"causal", "False"},
                                      {"dtype", "fp32"},
                                      {"implementation", "naive"},
                                      {"status", "success"},
                                      {"error", ""}})
    EXPECT_EQ(csv.rows[0].at(column), value) << column;
  EXPECT_LT(std::stod(csv.rows[0].at("error_over_tolerance")), 1);
}

TEST(Attention, TheCsvOfSeveralImplementationsHasTheSameColumns) {
  const Sandbox sandbox;
  ASSERT_EQ(
      sandbox.run(tiny_attention({"--impl", "flash,compiled", "--seq-len", "16", "--d-model", "8"}))
          .exit_code,
      0);
  const Csv csv = parse_csv(read_text(sandbox.attention("attention.csv")));
  EXPECT_EQ(csv.columns, testing::kAttentionColumns);
  ASSERT_EQ(csv.rows.size(), 2u);
  EXPECT_EQ(csv.rows[0].at("compile_seconds"), "");
  EXPECT_EQ(csv.rows[1].at("compiled"), "True");
  EXPECT_GT(std::stod(csv.rows[1].at("compile_seconds")), 0);
}

TEST(Attention, CompiledIsCheckedMarkedAndExplained) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_attention(
      {"--impl", "naive,compiled", "--seq-len", "16", "--d-model", "8", "--causal", "--explain"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "compiled speedup")) << run.out;
  EXPECT_TRUE(contains(run.out, "became one attention node")) << run.out;
  const Csv csv = parse_csv(read_text(sandbox.attention("attention.csv")));
  ASSERT_EQ(csv.rows.size(), 2u);
  EXPECT_EQ(csv.rows[0].at("compiled"), "False");
  EXPECT_EQ(csv.rows[1].at("compiled"), "True");
  EXPECT_EQ(csv.rows[1].at("status"), "success");
  const Record record = sandbox.results().records.at(1);
  EXPECT_TRUE(record.verification.checked);
  EXPECT_GT(record.metrics->at("compile_seconds").get<double>(), 0);
}

// 4 inputs, the output and d_v of 128 KiB each, and three S x S tensors of 2 MiB at the peak.
// Heads so wide that flash, which needs no compiler, does not serve them.
TEST(Attention, ACompiledRowThatRanEagerlySaysSo) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(tiny_attention({"--impl", "compiled", "--d-model", "264", "--seq-len", "16"}),
                  {.environment = {{"CXX", "/nowhere/c++"}, {"RIDGELINE_CACHE_DIR", "off"}}});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Record record = sandbox.results().records.at(0);
  EXPECT_EQ(record.memory.predicted_peak, record.memory.peak) << "of what ran, not of the plan";
  EXPECT_EQ(record.memory.predicted_before_backward, record.memory.before_backward);
  const Csv csv = parse_csv(read_text(sandbox.attention("attention.csv")));
  EXPECT_TRUE(csv.rows.at(0).at("error").starts_with("ran eagerly: no C++ compiler"));
}

TEST(Attention, MemoryInTheCsvIsInMebibytes) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_attention(
      {"--impl", "naive", "--seq-len", "256", "--d-model", "16"}, {.batch_size = "8"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Csv csv = parse_csv(read_text(sandbox.attention("attention.csv")));
  EXPECT_EQ(csv.rows.at(0).at("peak_memory_mb"), "6.75");
  EXPECT_EQ(csv.rows.at(0).at("memory_before_backward_mb"), "2.625");
}

TEST(Attention, TheCsvHoldsTheNumbersOfTheRecords) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(tiny_attention({"--impl", "naive", "--seq-len", "16,48", "--d-model", "8"}))
                .exit_code,
            0);
  const std::vector<Record> records = sandbox.results().records;
  const Csv csv = parse_csv(read_text(sandbox.attention("attention.csv")));
  ASSERT_EQ(csv.rows.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const Statistics& forward = records[i].find_series("forward")->statistics;
    const Statistics& backward = records[i].find_series("backward")->statistics;
    EXPECT_EQ(csv.rows[i].at("forward_mean_ms"), fmt::format("{:.6g}", forward.mean_ms));
    EXPECT_EQ(csv.rows[i].at("backward_std_ms"), fmt::format("{:.6g}", backward.std_ms));
    EXPECT_EQ(csv.rows[i].at("total_mean_ms"),
              fmt::format("{:.6g}", forward.mean_ms + backward.mean_ms));
  }
}

TEST(Attention, EveryRecordIsVerifiedAndItsMemoryWasPredicted) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(tiny_attention({"--impl", "naive,flash", "--seq-len", "16,33,64", "--d-model",
                                  "8,32", "--dtype", "fp32,bf16,fp16", "--causal"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ReadResult results = sandbox.results();
  EXPECT_TRUE(results.problems.empty());
  expect_each_once(results.records, 36);
  for (const Record& record : results.records) {
    SCOPED_TRACE(record.command);
    EXPECT_EQ(record.status, Status::ok) << record.error;
    EXPECT_TRUE(record.verification.checked);
    ASSERT_EQ(record.verification.tensors.size(), record.implementation == "flash" ? 5u : 4u);
    for (const TensorError& tensor : record.verification.tensors)
      EXPECT_LE(tensor.max_error, tensor.tolerance) << tensor.name;
    EXPECT_EQ(record.memory.predicted_peak, record.memory.peak);
    EXPECT_EQ(record.memory.predicted_before_backward, record.memory.before_backward);
    EXPECT_EQ(record.find_series("forward")->samples_ms.size(), 3u);
    EXPECT_EQ(record.find_series("backward")->samples_ms.size(), 3u);
  }
}

TEST(Attention, WithoutVerificationTheRecordSaysSo) {
  const Sandbox sandbox;
  ASSERT_EQ(
      sandbox.run(tiny_attention({"--no-verify", "--seq-len", "16", "--d-model", "8"})).exit_code,
      0);
  for (const Record& record : sandbox.results().records) EXPECT_FALSE(record.verification.checked);
}

TEST(Attention, TheCommandInARecordRunsTheSameRowAgain) {
  const Sandbox sandbox;
  const Arguments rows[] = {
      {"--impl", "naive,flash", "--seq-len", "16,32", "--d-model", "8", "--seed", "7"},
      {"--impl", "flash", "--seq-len", "32", "--d-model", "8", "--backward", "single-pass"},
      {"--preset", "flash", "--impl", "naive", "--seq-len", "16", "--d-model", "8", "--dtype",
       "bf16", "--heads", "2", "--time-budget", "1ms", "--memory-budget", "1GiB"}};
  for (const Arguments& row : rows) {
    ASSERT_EQ(sandbox.run(tiny_attention(row)).exit_code, 0);
    for (const Record& record : sandbox.results().records) {
      const Sandbox again;
      const Finished run = again.run(arguments_of(record.command));
      ASSERT_EQ(run.exit_code, 0) << record.command << '\n' << run.err;
      const std::vector<Record> repeated = again.results().records;
      ASSERT_EQ(repeated.size(), 1u) << record.command;
      EXPECT_EQ(workload_key(repeated[0]), workload_key(record)) << record.command;
      EXPECT_EQ(repeated[0].command, record.command);
    }
  }
}

TEST(Attention, TheCommandInARecordCanBePastedWhenABudgetWasWrittenWithASpace) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_attention(
      {"--impl", "naive", "--seq-len", "16", "--d-model", "8", "--memory-budget", "1 GiB"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string command = sandbox.results().records.at(0).command;
  const Finished pasted = Sandbox().run(arguments_of(command));
  EXPECT_EQ(pasted.exit_code, 0) << command << '\n' << pasted.err;
}

TEST(Attention, OutputPicksTheFormatByItsEnding) {
  const Sandbox sandbox;
  const Arguments row = {"--impl", "naive", "--seq-len", "16", "--d-model", "8", "--output"};
  for (const std::string name : {"further/a.csv", "further/a.md", "further/a.jsonl"})
    ASSERT_EQ(sandbox.run(tiny_attention(row) + Arguments{name}).exit_code, 0) << name;
  EXPECT_EQ(parse_csv(read_text(sandbox / "further/a.csv")).columns, testing::kAttentionColumns);
  EXPECT_TRUE(contains(read_text(sandbox / "further/a.md"), "| batch"));
  EXPECT_EQ(read_results(sandbox / "further/a.jsonl").records.size(), 1u);
}

TEST(Attention, ResultsGoToStdoutAndMessagesToStderrWithoutEscapeCodes) {
  const Sandbox sandbox;
  const Arguments row = {"--seq-len", "16", "--d-model", "8"};
  const RunOptions with_terminal_type{.environment = {{"TERM", "xterm-256color"}}};
  const Finished first = sandbox.run(tiny_attention(row), with_terminal_type);
  const Finished second = sandbox.run(tiny_attention(row), with_terminal_type);
  EXPECT_EQ(first.err, "");
  EXPECT_TRUE(contains(first.out, "seq_len")) << first.out;
  EXPECT_TRUE(contains(second.err, "kept the earlier results")) << second.err;
  EXPECT_FALSE(contains(second.out, "kept the earlier results"));
  for (const std::string& text : {first.out, second.out, second.err}) {
    EXPECT_FALSE(contains(text, "\033"));
    EXPECT_FALSE(contains(text, "\r"));
  }
}

TEST(Attention, ProgressIsShownOnATerminalAndStaysOutOfStdout) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(tiny_attention({"--impl", "naive", "--seq-len", "16,32", "--d-model", "8"}),
                  {.environment = {{"TERM", "xterm"}}, .stderr_is_terminal = true});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "[1/2] naive S=16")) << run.err;
  EXPECT_TRUE(contains(run.err, "[2/2] naive S=32")) << run.err;
  EXPECT_FALSE(contains(run.out, "\033"));
}

}  // namespace
}  // namespace ridgeline
