// Flags that mean the same in every command: short ones, older names, further files, both
// algorithms.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/csv.h"
#include "cli/run_ridgeline.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

struct SmallStudy {
  std::string name;
  Arguments flags;
};

// Each in a few milliseconds.
std::vector<SmallStudy> studies_with_samples() {
  return {{"attention", {"--impl", "flash", "--seq-len", "16", "--head-dim", "8"}},
          {"kernel", {"--shape", "1,1,16,8", "--dtype", "fp32", "--mode", "hot"}},
          {"gemm", {"--impl", "library", "--size", "16", "--op", "gemm"}},
          {"model",
           {"--d-model", "16", "--d-ff", "24", "--layers", "1", "--heads", "2", "--vocabulary",
            "40", "--batch-size", "1", "--context-length", "8", "--impl", "vanilla", "--scenario",
            "forward"}},
          {"roofline",
           {"--size", "32", "--dtype", "fp32", "--settle-time", "1ms", "--no-plot",
            "--memory-budget", "64MiB"}}};
}

Arguments command(const SmallStudy& study, const Arguments& more) {
  return Arguments{study.name, "--device", "cpu", "--threads", "1"} + study.flags + more;
}

std::vector<Record> records_of(const Sandbox& sandbox, const std::string& study) {
  return read_results(sandbox / "results" / study / (study + ".jsonl")).records;
}

TEST(Flags, ShortOnesAreTheSameInEveryStudy) {
  for (const SmallStudy& study : studies_with_samples()) {
    const Sandbox sandbox;
    const Finished run =
        sandbox.run(command(study, {"-w", "2", "-r", "7", "-o", "more.md", "--json", "all.json"}));
    ASSERT_EQ(run.exit_code, 0) << study.name << run.err;
    const std::vector<Record> records = records_of(sandbox, study.name);
    ASSERT_FALSE(records.empty()) << study.name;
    for (const Record& record : records) {
      EXPECT_GE(record.protocol.warmups, 2) << study.name;  // at least, see Protocol::min_warmup_s
      EXPECT_EQ(record.protocol.iterations, 7) << study.name;
      EXPECT_TRUE(contains(record.command, "--num-warmup 2 --num-iterations 7")) << record.command;
    }
    EXPECT_TRUE(contains(read_text(sandbox / "more.md"), "|---")) << study.name;
    const Json all = Json::parse(read_text(sandbox / "all.json"));
    ASSERT_EQ(all.size(), records.size()) << study.name;
    for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(record_from_json(all[i]), records[i]);
  }
}

TEST(Flags, OlderNamesStay) {
  for (const SmallStudy& study : studies_with_samples()) {
    const Sandbox sandbox;
    const Finished run =
        sandbox.run(command(study, {"--warmup-steps", "1", "--measure-steps", "6"}));
    ASSERT_EQ(run.exit_code, 0) << study.name << run.err;
    EXPECT_EQ(records_of(sandbox, study.name).at(0).protocol.iterations, 6) << study.name;
  }
  const Sandbox sandbox;
  SmallStudy model = studies_with_samples()[3];
  std::replace(model.flags.begin(), model.flags.end(), std::string("--impl"),
               std::string("--mode"));
  EXPECT_EQ(sandbox.run(command(model, {"-r", "1"})).exit_code, 0);
  EXPECT_EQ(records_of(sandbox, "model").at(0).implementation, "vanilla");
}

TEST(Flags, ABudgetThatIsAskedForGoesBeforeANumberOfSamples) {
  for (const SmallStudy& study : studies_with_samples()) {
    const Sandbox sandbox;
    const Finished run = sandbox.run(command(study, {"-r", "5", "--time-budget", "1ms"}));
    ASSERT_EQ(run.exit_code, 0) << study.name << run.err;
    const Record record = records_of(sandbox, study.name).at(0);
    EXPECT_NE(record.protocol.stopping_rule, StoppingRule::iterations_done) << study.name;
  }
}

TEST(Flags, FurtherFilesAreCheckedBeforeTheWork) {
  const Sandbox sandbox;
  const SmallStudy study = studies_with_samples()[0];
  for (const Arguments& more : {Arguments{"--json", "results"}, Arguments{"--json", ""},
                                Arguments{"-o", "a.jsonl", "--json", "./a.jsonl"}}) {
    std::filesystem::create_directories(sandbox / "results");
    const Finished run = sandbox.run(command(study, more));
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_TRUE(contains(run.err, "--json") || contains(run.err, "results")) << run.err;
    EXPECT_TRUE(std::filesystem::is_empty(sandbox / "results"));
  }
}

TEST(Flags, HeadDimIsTheWidthOfOneHeadEverywhere) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(tiny_attention({"--impl", "flash", "--seq-len", "16", "--head-dim", "8"}))
                .exit_code,
            0);
  EXPECT_EQ(sandbox.results().records.at(0).workload["d_model"], 8);
  const Finished memory =
      sandbox.run({"memory", "--device", "cpu", "--seq-len", "32", "--head-dim", "8", "--dry-run"});
  EXPECT_EQ(memory.exit_code, 0) << memory.err;
  EXPECT_TRUE(contains(memory.out, "d_model 8") || contains(memory.out, "d 8") ||
              contains(memory.out, " 8"))
      << memory.out;
  EXPECT_EQ(sandbox.run({"frontier", "--device", "cpu", "--head-dim", "16", "--dry-run"}).exit_code,
            0);
  EXPECT_EQ(sandbox.run({"memory", "--head-dim", "8", "--d-model", "16", "--dry-run"}).exit_code, 2)
      << "two widths of one head";
}

std::vector<std::string> algorithms_in(const std::vector<Record>& records,
                                       const std::string& implementation) {
  std::vector<std::string> found;
  for (const Record& record : records)
    if (record.implementation == implementation)
      found.push_back(record.settings.value("backward", std::string("none")));
  return found;
}

TEST(Backward, BothAlgorithmsStandInOneTable) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(tiny_attention({"--impl", "naive,flash", "--seq-len", "16", "--head-dim", "8",
                                  "--backward", "single-pass,two-pass"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Record> records = sandbox.results().records;
  expect_each_once(records, 3);
  EXPECT_EQ(algorithms_in(records, "flash"), (std::vector<std::string>{"single-pass", "two-pass"}));
  EXPECT_EQ(algorithms_in(records, "naive"), std::vector<std::string>{"none"})
      << "it has no choice";
  EXPECT_TRUE(contains(run.out, "flash (single-pass)")) << run.out;
  EXPECT_TRUE(contains(run.out, "flash (two-pass)")) << run.out;
  const Csv csv = parse_csv(read_text(sandbox.attention("attention.csv")));
  EXPECT_EQ(csv.rows.at(2).at("backward"), "two-pass");
  ASSERT_EQ(sandbox
                .run(tiny_attention({"--impl", "naive,flash", "--seq-len", "16", "--head-dim", "8",
                                     "--backward", "two-pass", "single-pass", "--resume"}))
                .exit_code,
            0);
  expect_each_once(sandbox.results().records, 3);
}

TEST(Backward, OfAKernelMeansTheSame) {
  const Sandbox sandbox;
  const SmallStudy kernel = studies_with_samples()[1];
  const auto records = [&](const Arguments& more) {
    const Finished run = sandbox.run(command(kernel, Arguments{"-w", "1", "-r", "2"} + more));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return records_of(sandbox, "kernel");
  };
  EXPECT_EQ(records({}).at(0).find_series("backward"), nullptr);
  const std::vector<Record> by_default = records({"--backward"});
  ASSERT_EQ(by_default.size(), 1u);
  EXPECT_NE(by_default[0].find_series("backward"), nullptr);
  EXPECT_EQ(by_default[0].settings["backward"], "single-pass");
  const std::vector<Record> both = records({"--backward", "single-pass,two-pass"});
  EXPECT_EQ(algorithms_in(both, "flash"), (std::vector<std::string>{"single-pass", "two-pass"}));
  EXPECT_TRUE(contains(both.at(1).command, "--backward two-pass")) << both.at(1).command;
  const std::vector<Record> older = records({"--backward", "--backward-algorithm", "two-pass"});
  EXPECT_EQ(algorithms_in(older, "flash"), std::vector<std::string>{"two-pass"});
}

std::string in_one_line(std::string text) {
  for (size_t at = text.find("\n  "); at != std::string::npos; at = text.find("\n  ", at))
    text.replace(at, 3, " ");
  return text;
}

// No line of a table is wider than the screen, and what is missing is named.
TEST(Tables, FitTheScreen) {
  const Sandbox sandbox;
  for (const SmallStudy& study : studies_with_samples())
    for (const char* columns : {"80", "100", "120"}) {
      const Finished run = sandbox.run(command(study, {"-w", "1", "-r", "6"}),
                                       {.environment = {{"COLUMNS", columns}}});
      ASSERT_EQ(run.exit_code, 0) << run.err;
      bool in_table = false;
      std::istringstream lines(run.out);
      for (std::string line; std::getline(lines, line);) {
        in_table = line.starts_with("--") || (in_table && !line.empty());
        if (in_table) {
          EXPECT_LE(line.size(), std::stoul(columns)) << study.name << ": " << line;
        }
      }
      const std::string out = in_one_line(run.out);
      const bool drops = contains(out, "Left out to fit " + std::string(columns));
      EXPECT_EQ(drops, contains(out, study.name + ".csv has all figures")) << run.out;
    }
}

TEST(Tables, AreAsWideInAPipeAsDocumented) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(command(studies_with_samples()[1], {"-w", "1", "-r", "6"}));
  EXPECT_TRUE(contains(run.out, "Left out to fit 120 columns")) << run.out;
}

}  // namespace
}  // namespace ridgeline
