// --resume runs what a results file does not hold, whatever state the file is in.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/csv.h"
#include "cli/run_ridgeline.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

Arguments sweep(const std::string& seq_lens) {
  return tiny_attention({"--impl", "naive,flash", "--d-model", "8", "--seq-len", seq_lens});
}

Arguments resumed(const std::string& seq_lens) {
  return sweep(seq_lens) + Arguments{"--resume"};
}

std::vector<fs::path> kept_aside(const Sandbox& sandbox) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(sandbox / "results/attention"))
    if (entry.path().extension() == ".jsonl" && entry.path().filename() != "attention.jsonl")
      found.push_back(entry.path());
  return found;
}

TEST(Resume, RunsExactlyTheMissingRows) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16,48")).exit_code, 0);
  const std::string before = read_text(sandbox.attention("attention.jsonl"));
  const Finished run = sandbox.run(resumed("16,32,48,64"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(read_text(sandbox.attention("attention.jsonl")).starts_with(before));
  expect_each_once(sandbox.results().records, 8);
}

TEST(Resume, TheCsvHoldsKeptAndNewRowsInTheOrderOfTheSweep) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("48")).exit_code, 0);
  ASSERT_EQ(sandbox.run(resumed("16,48,64")).exit_code, 0);
  std::vector<std::string> lengths;
  for (const auto& row : parse_csv(read_text(sandbox.attention("attention.csv"))).rows)
    lengths.push_back(row.at("seq_len"));
  EXPECT_EQ(lengths, (std::vector<std::string>{"16", "16", "48", "48", "64", "64"}));
}

TEST(Resume, OfACompleteSweepRunsNothingAndShowsIt) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16,32")).exit_code, 0);
  const std::string before = read_text(sandbox.attention("attention.jsonl"));
  const Finished run = sandbox.run(resumed("16,32"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(read_text(sandbox.attention("attention.jsonl")), before);
  EXPECT_TRUE(contains(run.out, "seq_len")) << run.out;
}

TEST(Resume, SaysWhichOfItsRowsWereNotChecked) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16") + Arguments{"--no-verify"}).exit_code, 0);
  EXPECT_TRUE(contains(sandbox.run(resumed("16,32")).err,
                       "2 of them were not checked (--no-verify); without --resume all rows run"));
  EXPECT_FALSE(contains(sandbox.run(resumed("16") + Arguments{"--no-verify"}).err, "not checked"))
      << "nobody asks for it";
}

TEST(Resume, WithoutAnEarlierFileIsAnOrdinarySweep) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(resumed("16,32"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  expect_each_once(sandbox.results().records, 4);
}

TEST(Resume, RowsOfAnotherSeedAreNotMistakenForTheseRows) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16")).exit_code, 0);
  ASSERT_EQ(sandbox.run(resumed("16") + Arguments{"--seed", "7"}).exit_code, 0);
  expect_each_once(sandbox.results().records, 4);
}

// Rewrites every record of the file.
void change_records(const Sandbox& sandbox, const std::function<void(Record&)>& change) {
  std::string lines;
  for (Record record : sandbox.results().records) {
    change(record);
    lines += to_line(record);
  }
  write_text(sandbox.attention("attention.jsonl"), lines);
}

TEST(Resume, RowsOfAnotherMachineRunAgainAndStayInTheFile) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16")).exit_code, 0);
  change_records(sandbox, [](Record& record) { record.machine.fingerprint = "deadbeef"; });
  const Finished run = sandbox.run(resumed("16"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "2 rows were measured on another machine (deadbeef)")) << run.err;
  EXPECT_EQ(sandbox.results().records.size(), 4u);
  EXPECT_EQ(parse_csv(read_text(sandbox.attention("attention.csv"))).rows.size(), 2u);
  // Back on the first machine, its rows are there: whoever wrote last.
  const std::string both = read_text(sandbox.attention("attention.jsonl"));
  const size_t own = both.find('\n', both.find('\n') + 1) + 1;
  for (const std::string& text : {both, both.substr(own) + both.substr(0, own)}) {
    write_text(sandbox.attention("attention.jsonl"), text);
    const Finished again = sandbox.run(resumed("16"));
    EXPECT_FALSE(contains(again.err, "another machine")) << again.err;
    EXPECT_EQ(read_text(sandbox.attention("attention.jsonl")), text);
  }
}

TEST(Resume, RowsOfAnotherBuildAreKeptAndTold) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16")).exit_code, 0);
  change_records(sandbox, [](Record& record) { record.build.git_commit = "0123abc"; });
  const std::string before = read_text(sandbox.attention("attention.jsonl"));
  const Finished run = sandbox.run(resumed("16"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "2 rows that are kept are of another build (commit 0123abc)"))
      << run.err;
  EXPECT_EQ(read_text(sandbox.attention("attention.jsonl")), before);
}

TEST(Resume, ARowOutOfMemoryRunsAgainOnlyWhereItIsKnownToFit) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16")).exit_code, 0);
  const Bytes predicted = *sandbox.results().records.at(0).memory.predicted_peak;
  for (const auto& [peak, records] :
       {std::pair(std::optional<Bytes>(), 2u), {std::optional(predicted), 4u}}) {
    change_records(sandbox, [&](Record& record) {
      record.status = Status::oom;
      record.series.clear();
      record.memory.predicted_peak = peak;
    });
    ASSERT_EQ(sandbox.run(resumed("16")).exit_code, 0);
    EXPECT_EQ(sandbox.results().records.size(), records);
  }
}

TEST(Resume, SaysThatTheLastLineWasCutAndRunsThatRowAgain) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16,32,48")).exit_code, 0);
  const auto path = sandbox.attention("attention.jsonl");
  const std::string whole = read_text(path);
  const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (const size_t kept : {size_t{1}, (whole.size() - last) / 2, whole.size() - last - 2}) {
    write_text(path, whole.substr(0, last + kept));
    const Finished run = sandbox.run(resumed("16,32,48"));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_TRUE(contains(run.err, "cut off")) << run.err;
    const ReadResult results = sandbox.results();
    EXPECT_TRUE(results.problems.empty());
    expect_each_once(results.records, 6);
  }
}

TEST(Resume, ReportsAGarbageLineAndGoesOn) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16")).exit_code, 0);
  const auto path = sandbox.attention("attention.jsonl");
  std::string text = read_text(path);
  text.insert(text.find('\n') + 1, "\x01 not a record \xff\n");
  write_text(path, text);
  const Finished run = sandbox.run(resumed("16,32"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "line 2")) << run.err;
  const ReadResult results = sandbox.results();
  EXPECT_EQ(results.problems.size(), 1u);
  expect_each_once(results.records, 4);
}

TEST(Resume, ARowWhoseLineWasDamagedRunsAgain) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16,32")).exit_code, 0);
  const auto path = sandbox.attention("attention.jsonl");
  std::string text = read_text(path);
  text.replace(text.find("\"status\""), 8, "\"stasis\"");
  write_text(path, text);
  const Finished run = sandbox.run(resumed("16,32"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "line 1")) << run.err;
  expect_each_once(sandbox.results().records, 4);
}

TEST(Resume, AFileThatIsNotRecordsIsLeftAlone) {
  const Sandbox sandbox;
  write_text(sandbox.attention("attention.jsonl"), "my thesis, chapter one");
  const Finished run = sandbox.run(resumed("16"));
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_TRUE(contains(run.err, "not a record")) << run.err;
  EXPECT_EQ(read_text(sandbox.attention("attention.jsonl")), "my thesis, chapter one");
}

TEST(Resume, WithoutItAFileThatIsNotRecordsMovesAsideAndAnOldTableWithIt) {
  const Sandbox sandbox;
  write_text(sandbox.attention("attention.jsonl"), "my thesis, chapter one");
  write_text(sandbox.attention("attention.csv"), "its index");
  const Finished run = sandbox.run(sweep("16"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(sandbox.results().records.size(), 2u);
  ASSERT_EQ(kept_aside(sandbox).size(), 1u);
  fs::path kept = kept_aside(sandbox)[0];
  EXPECT_EQ(read_text(kept), "my thesis, chapter one");
  EXPECT_EQ(read_text(kept.replace_extension(".csv")), "its index");
}

TEST(Resume, SaysHowManyRowsItKeepsAndHowTheyWereMeasured) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16")).exit_code, 0);
  const int samples = sandbox.results().records.at(0).protocol.iterations;
  const Finished run = sandbox.run(resumed("16,32"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(
      run.err, fmt::format("2 of 4 rows are kept as they were measured, with {} samples", samples)))
      << run.err;
}

TEST(Resume, AResultsFileThatCannotBeReadIsExit2) {
  const Sandbox sandbox;
  fs::create_directories(sandbox.attention("attention.jsonl"));
  const Finished run = sandbox.run(resumed("16"));
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_TRUE(contains(run.err, "cannot read 'results/attention/attention.jsonl'")) << run.err;
}

TEST(WithoutResume, TheEarlierFileIsKeptUnderAnotherName) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16")).exit_code, 0);
  const std::string first = read_text(sandbox.attention("attention.jsonl"));
  const Finished run = sandbox.run(sweep("32"));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  expect_each_once(sandbox.results().records, 2);
  const std::vector<fs::path> kept = kept_aside(sandbox);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(read_text(kept[0]), first);
  EXPECT_TRUE(contains(run.err, kept[0].filename().string())) << run.err;
}

TEST(WithoutResume, TheEarlierFileIsNamedAfterATimeAndNotANegativeNumber) {
  const Sandbox sandbox;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(sandbox.run(sweep("16")).exit_code, 0);
  const std::string name = kept_aside(sandbox).at(0).filename().string();
  EXPECT_TRUE(name.starts_with("attention-")) << name;
  EXPECT_FALSE(contains(name, "--")) << name;
}

TEST(WithoutResume, SeveralEarlierFilesAreAllKept) {
  const Sandbox sandbox;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(sandbox.run(sweep("16")).exit_code, 0);
  EXPECT_EQ(kept_aside(sandbox).size(), 3u);
}

TEST(WithoutResume, AFileThatIsNotRecordsIsKeptOrRefusedButNeverLost) {
  const Sandbox sandbox;
  write_text(sandbox.attention("attention.jsonl"), "my thesis, chapter one");
  const Finished run = sandbox.run(sweep("16"));
  std::vector<fs::path> places = kept_aside(sandbox);
  if (run.exit_code == 2) places = {sandbox.attention("attention.jsonl")};
  ASSERT_EQ(places.size(), 1u) << run.err;
  EXPECT_EQ(read_text(places[0]), "my thesis, chapter one");
}

TEST(WithoutResume, ASweepThatIsRefusedLeavesTheEarlierFileInItsPlace) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(sweep("16")).exit_code, 0);
  const std::string first = read_text(sandbox.attention("attention.jsonl"));
  EXPECT_EQ(sandbox.run(sweep("16,1000000000000")).exit_code, 2);
  EXPECT_EQ(read_text(sandbox.attention("attention.jsonl")), first);
  EXPECT_TRUE(kept_aside(sandbox).empty());
}

}  // namespace
}  // namespace ridgeline
