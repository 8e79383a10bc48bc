#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/run_ridgeline.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<double> around(double ms) {
  std::vector<double> out;
  for (int i = 0; i < 24; ++i) out.push_back(ms * (1 + (i % 2 ? 0.001 : -0.001)));
  return out;
}

std::string line_of(double forward_ms) {
  Record record = attention_record({});
  record.series = {series_of("forward", around(forward_ms))};
  return to_line(record);
}

TEST(CompareCommand, AGateThatFailsEndsWithOneAndTablesAreWritten) {
  const Sandbox sandbox;
  write_text(sandbox / "base.jsonl", line_of(10));
  write_text(sandbox / "slow.jsonl", line_of(20));
  const Finished slow = sandbox.run({"compare", "base.jsonl", "slow.jsonl", "--gate", "slower:3%"});
  EXPECT_EQ(slow.exit_code, 1) << slow.err;
  EXPECT_TRUE(contains(slow.out, "SLOWER")) << slow.out;
  EXPECT_TRUE(contains(slow.err, "gate failed: slower:3%")) << slow.err;
  EXPECT_TRUE(contains(read_text(sandbox / "results/compare/comparison.csv"), ",SLOWER,"));
  EXPECT_TRUE(contains(read_text(sandbox / "results/compare/comparison.md"), "| SLOWER |"));
  const Finished same = sandbox.run({"compare", "base.jsonl", "base.jsonl", "--gate", "slower:3%"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_TRUE(contains(same.out, "SAME")) << same.out;
}

// The same work, while two virtual processors shared a core.
TEST(CompareCommand, ASlowerMachineIsNotMoreWorkAndWhatWouldDecideIsNamed) {
  const Sandbox sandbox;
  Record shared = attention_record({});
  shared.series = {series_of("forward", around(19))};
  shared.command = "ridgeline attention --seq-len 256";
  shared.speed_before->together_gflops /= 1.9;
  shared.speed_after->together_gflops /= 1.9;
  write_text(sandbox / "base.jsonl", line_of(10));
  write_text(sandbox / "new.jsonl", to_line(shared));
  const std::string reason = "threads together computed 1.9x slower beside the new side";
  for (const char* gate : {"slower:3%", "geomean:1%"}) {
    const Finished run = sandbox.run({"compare", "base.jsonl", "new.jsonl", "--gate", gate});
    EXPECT_EQ(run.exit_code, 5) << run.err;
    EXPECT_TRUE(contains(run.out, "UNCLEAR")) << run.out;
    EXPECT_TRUE(contains(run.out, "`ridgeline attention --seq-len 256 --runs 5`")) << run.out;
    EXPECT_TRUE(contains(run.out, "1 of the lines is in doubt")) << run.out;
    EXPECT_TRUE(contains(run.err, reason)) << run.err;
  }
  EXPECT_TRUE(contains(read_text(sandbox / "results/compare/comparison.csv"), reason));
  const Finished report =
      sandbox.run({"report", "new.jsonl", "--base", "base.jsonl", "--output", "report.md"});
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_TRUE(contains(read_text(sandbox / "report.md"), reason));
}

TEST(CompareCommand, WhatTakesLongerIsSlowerNotAnImprovementBelowZero) {
  const Sandbox sandbox;
  write_text(sandbox / "base.jsonl", line_of(20));
  write_text(sandbox / "quick.jsonl", line_of(12.8));
  const Finished quick = sandbox.run({"compare", "base.jsonl", "quick.jsonl"});
  EXPECT_EQ(quick.exit_code, 0) << quick.err;
  EXPECT_TRUE(contains(quick.out, "Geometric mean of the speedups: 1.562x")) << quick.out;
  EXPECT_TRUE(contains(quick.out, "1.562x faster")) << quick.out;
  write_text(sandbox / "slow.jsonl", line_of(64));
  const Finished slow = sandbox.run({"compare", "base.jsonl", "slow.jsonl"});
  EXPECT_TRUE(contains(slow.out, "3.200x slower")) << slow.out;
  for (const std::string& text : {slow.out, read_text(sandbox / "results/compare/comparison.md")}) {
    EXPECT_FALSE(contains(text, "-220")) << text;
    EXPECT_FALSE(contains(text, "improvement")) << text;
  }
  const std::string csv = read_text(sandbox / "results/compare/comparison.csv");
  EXPECT_TRUE(contains(csv, "improvement_pct")) << csv;
}

TEST(CompareCommand, AGateOverNothingIsUndecided) {
  const Sandbox sandbox;
  Record record = attention_record({});
  for (Series& series : record.series) series = series_of(series.name, {1, 1, 1, 1, 1});
  write_text(sandbox / "five.jsonl", to_line(record));
  record.time = "later";
  write_text(sandbox / "again.jsonl", to_line(record));
  const Finished run = sandbox.run({"compare", "five.jsonl", "again.jsonl", "--gate", "slower:3%"});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_TRUE(contains(run.err, "could not judge: slower:3%")) << run.err;
}

TEST(CompareCommand, DamagedFilesAreReportedAndHostileTextIsEscaped) {
  const Sandbox sandbox;
  Record hostile = attention_record({.seq_len = 512});
  hostile.implementation = "<script>\x1b[2J" + std::string(1 << 20, 'n');
  hostile.series = {series_of("forward", around(1))};
  std::string other_schema = line_of(1);
  other_schema.replace(other_schema.find("\"schema\":1"), 10, "\"schema\":9");
  const std::string good = line_of(1) + to_line(hostile);
  write_text(sandbox / "base.jsonl", good);
  write_text(sandbox / "new.jsonl",
             good + other_schema + "{\"schema\":1,\"time\":NaN}\n" + line_of(1).substr(0, 50));
  const Finished run = sandbox.run({"compare", "base.jsonl", "new.jsonl"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "line 3: schema version 9")) << run.err;
  EXPECT_TRUE(contains(run.err, "line 4: it is not JSON from byte")) << run.err;
  EXPECT_TRUE(contains(run.err, "line 5: cut off")) << run.err;
  const std::string everything = run.out + read_text(sandbox / "results/compare/comparison.csv") +
                                 read_text(sandbox / "results/compare/comparison.md");
  EXPECT_FALSE(contains(everything, "\x1b"));
  EXPECT_FALSE(contains(read_text(sandbox / "results/compare/comparison.md"), "<script>"));
  EXPECT_LT(everything.size(), 20'000u);
}

TEST(CompareCommand, BadUsageIsExplained) {
  const Sandbox sandbox;
  write_text(sandbox / "base.jsonl", line_of(1));
  write_text(sandbox / "empty.jsonl", "");
  const auto refuses = [&](const Arguments& arguments, const std::string& part) {
    const Finished run = sandbox.run(Arguments{"compare"} + arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_TRUE(contains(run.err, part)) << run.err;
  };
  refuses({}, "expected BASE NEW");
  refuses({"base.jsonl"}, "expected BASE NEW");
  refuses({"base.jsonl", "empty.jsonl"}, "holds no record");
  refuses({"base.jsonl", "absent.jsonl"}, "absent.jsonl");
  refuses({"base.jsonl", "base.jsonl", "--gate", "slow"}, "not a gate");
  refuses({"base.jsonl", "base.jsonl", "--tolerance", "-1%"},
          "--tolerance '-1%' is not a percentage");
  refuses({"--baseline", "main", "base.jsonl"}, "--save-baseline");
  refuses({"--interleave"}, "end the command with --");
  refuses({"--interleave", "--", "attention", "--output", "x.csv"}, "--output");
  refuses({"--interleave", "--impl", "naive,flash", "--", "attention", "--impl", "flash"},
          "--impl");
  refuses({"--interleave", "--binary", "/no/such,/no/such", "--", "attention"}, "cannot run");
  refuses({"--binary", "a,b", "base.jsonl", "base.jsonl"}, "--interleave");
}

TEST(CompareCommand, WhatAStudyRefusesIsBadUsageHereToo) {
  const Sandbox sandbox;
  const auto refuses = [&](const Arguments& arguments, const std::string& part) {
    const Finished run = sandbox.run(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_TRUE(contains(run.err, part)) << run.err;
    EXPECT_FALSE(contains(run.err, "\\n")) << run.err;  // an escaped end of line
    EXPECT_FALSE(contains(run.err, "Run with --help")) << run.err;
  };
  for (const char* side : {"--base-args", "--new-args"})
    refuses(Arguments{"compare", "--interleave", side, "--threads 0", "--", "attention",
                      "--seq-len", "16", "--d-model", "8"},
            "Value 0 not in range");
  refuses({"compare", "--interleave", "--", "attention", "--seq-len", "0"}, "0 is not a size");
  for (const char* word : {"doctor", "roofline", "frontier", "nonsense", "--threads"}) {
    const std::string told = fmt::format("'{}' is not a study that takes turns", word);
    refuses({"noise", "--", word}, told);
    refuses({"compare", "--interleave", "--", word}, told);
  }
}

const Arguments kTiny = {"attention", "--threads", "1",         "--batch-size", "1",
                         "--d-model", "16",        "--seq-len", "32,64"};

TEST(CompareCommand, MeasuresTwoImplementationsInTurns) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(Arguments{"compare", "--interleave", "--impl", "naive,flash",
                                             "--rounds", "2", "--time-budget", "10ms", "--"} +
                                   kTiny);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "naive -> flash")) << run.out;
  const std::string csv = read_text(sandbox / "results/compare/comparison.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5) << csv;  // 2 sizes x 2 phases
  EXPECT_EQ(read_results(sandbox / "results/compare/base.jsonl").records.size(), 4u);
  for (const Record& record : read_results(sandbox / "results/compare/new.jsonl").records)
    EXPECT_EQ(record.implementation, "flash");
}

TEST(CompareCommand, ARowThatOneSideCannotMeasureIsToldAndTheOthersGoOn) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(Arguments{"compare",
                                             "--interleave",
                                             "--impl",
                                             "flash,naive",
                                             "--rounds",
                                             "1",
                                             "--time-budget",
                                             "10ms",
                                             "--gate",
                                             "slower:3%",
                                             "--",
                                             "attention",
                                             "--threads",
                                             "1",
                                             "--batch-size",
                                             "1",
                                             "--d-model",
                                             "16",
                                             "--seq-len",
                                             "1024,64",
                                             "--memory-budget",
                                             "2MiB"});
  EXPECT_EQ(run.exit_code, 1) << run.err;  // ok in the base, out of memory now
  EXPECT_TRUE(contains(run.out, "OOM")) << run.out;
  EXPECT_TRUE(contains(run.err, "gate failed")) << run.err;
}

TEST(HistoryCommand, SeveralRunsOfARowAreRecordsAndNotRows) {
  const Sandbox sandbox;
  const Finished saved = sandbox.run(kTiny + Arguments{"--impl", "flash", "--num-iterations", "6",
                                                       "--runs", "2", "--save-baseline", "main"});
  EXPECT_TRUE(contains(saved.err, "saved 4 records as baseline 'main'")) << "of two rows\n"
                                                                         << saved.err;
  EXPECT_TRUE(contains(sandbox.run({"history", "--baselines"}).out, "records"));
}

TEST(HistoryCommand, BaselinesAreSavedComparedAndShown) {
  const Sandbox sandbox;
  const Arguments study =
      kTiny + Arguments{"--impl", "flash", "--num-iterations", "20", "--save-baseline", "main"};
  const Finished saved = sandbox.run(study);
  EXPECT_EQ(saved.exit_code, 0) << saved.err;
  EXPECT_TRUE(contains(saved.err, "saved 2 records as baseline 'main'")) << saved.err;
  ASSERT_EQ(sandbox.run(study).exit_code, 0);
  const Finished compared =
      sandbox.run({"compare", "--baseline", "main", "results/attention/attention.jsonl"});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_TRUE(contains(compared.out, "1.000x")) << compared.out;  // the saved run itself
  EXPECT_TRUE(contains(compared.out, "4 SAME")) << compared.out;

  const Finished shown = sandbox.run({"history", "--where", "seq_len=64", "--output", "h.csv"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_TRUE(contains(shown.out, "main")) << shown.out;
  EXPECT_FALSE(contains(shown.out, "seq_len=32")) << shown.out;
  for (const char* verdict : {"SAME", "FASTER", "SLOWER"})
    EXPECT_FALSE(contains(shown.out, verdict)) << shown.out;
  EXPECT_TRUE(contains(shown.out, "cannot be seen")) << shown.out;
  const std::string csv = read_text(sandbox / "h.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5) << csv;  // 2 phases x 2 runs
  EXPECT_TRUE(
      contains(sandbox.run({"history", "--baselines", "--output", "names.csv"}).out, "main"));
  EXPECT_TRUE(contains(read_text(sandbox / "names.csv"), "main,"));
  EXPECT_EQ(sandbox.run({"history", "--impl", "none"}).exit_code, 2);
}

TEST(HistoryCommand, ImportsResultsAndSaysWhereNothingIs) {
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run({"history"}).exit_code, 2);
  write_text(sandbox / "old.jsonl", line_of(1) + "junk\n");
  EXPECT_EQ(sandbox.run({"history", "--import", "old.jsonl"}).exit_code, 2);
  const Finished run = sandbox.run({"history", "--import", "old.jsonl", "--as", "old"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "line 2")) << run.err;
  write_text(sandbox / "results/history.sqlite", "nonsense, and enough of it to be looked at");
  EXPECT_EQ(sandbox.run({"history"}).exit_code, 2);
}

// A table of a study, or any other text, in the place of its records.
TEST(ResultsOfAllCommands, AFileOfOtherLinesIsOneSentenceAndManyBadLinesAreFew) {
  const Sandbox sandbox;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "naive,256,1.5\n";
  write_text(sandbox / "other.csv", lines);
  write_text(sandbox / "mixed.jsonl", lines + to_line(attention_record({})));
  write_text(sandbox / "results/attention/attention.jsonl", lines + to_line(attention_record({})));
  const auto said = [&](const Arguments& arguments) {
    const Finished run = sandbox.run(arguments);
    EXPECT_LE(std::count(run.err.begin(), run.err.end(), '\n'), 12) << run.err;
    return run.err;
  };
  const std::string sentence = "holds no record";
  const std::string hint = "a study's records are in its .jsonl";
  for (const Arguments& arguments : {Arguments{"compare", "other.csv", "mixed.jsonl"},
                                     Arguments{"report", "other.csv", "-o", "r.html"},
                                     Arguments{"history", "--import", "other.csv", "--as", "a"}}) {
    const std::string text = said(arguments);
    EXPECT_TRUE(contains(text, sentence) && contains(text, hint)) << text;
  }
  for (const Arguments& arguments :
       {Arguments{"compare", "mixed.jsonl", "mixed.jsonl"},
        Arguments{"report", "mixed.jsonl", "-o", "r.html"},
        Arguments{"history", "--import", "mixed.jsonl", "--as", "a"},
        kTiny + Arguments{"--impl", "flash", "--num-iterations", "1", "--resume"}}) {
    const std::string text = said(arguments);
    EXPECT_TRUE(contains(text, "95 more lines")) << text;
  }
}

TEST(NoiseCommand, MeasuresAndStoresWhatCompareThenUses) {
  const Sandbox sandbox;
  const Arguments study = kTiny + Arguments{"--impl", "flash", "--num-iterations", "20"};
  const Finished run = sandbox.run(Arguments{"noise", "--runs", "11", "--"} + study);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "attention flash cpu batch_size=")) << run.out;
  EXPECT_FALSE(contains(run.out, "{")) << run.out;
  for (const char* folder : {"a", "b"})
    ASSERT_EQ(sandbox.run(study + Arguments{"--results-dir", folder}).exit_code, 0);
  const Finished compared =
      sandbox.run({"compare", "a/attention/attention.jsonl", "b/attention/attention.jsonl"});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_TRUE(contains(read_text(sandbox / "results/compare/comparison.csv"), ",floor,"))
      << compared.out;
}

TEST(NoiseCommand, RefusesRunsThatBoundNothing) {
  const Sandbox sandbox;
  const Finished few = sandbox.run(Arguments{"noise", "--comparisons", "2", "--"} + kTiny);
  EXPECT_EQ(few.exit_code, 2) << few.out;
  EXPECT_FALSE(std::filesystem::exists(sandbox / "results/history.sqlite"));
}

TEST(Runs, AreRecordedOneByOneAndComparedByTheirMedians) {
  const Sandbox sandbox;
  const Arguments study =
      kTiny + Arguments{"--impl", "flash", "--num-iterations", "6", "--runs", "3"};
  const Finished run = sandbox.run(study + Arguments{"--results-dir", "a"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  ASSERT_EQ(sandbox.run(study + Arguments{"--results-dir=b"}).exit_code, 0);
  const std::vector<Record> records = read_results(sandbox / "a/attention/attention.jsonl").records;
  ASSERT_EQ(records.size() % 3, 0u);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].run, static_cast<int>(i / (records.size() / 3)) + 1) << "rows in turn";
    for (const auto& look : {records[i].speed_before, records[i].speed_after}) {
      ASSERT_TRUE(look);
      EXPECT_EQ(look->threads, records[i].settings["threads"].get<int>());
      EXPECT_TRUE(look->alone_gflops > 0 && look->together_gflops > 0 && look->memory_gb_per_s > 0);
    }
  }
  const Finished compared =
      sandbox.run({"compare", "a/attention/attention.jsonl", "b/attention/attention.jsonl"});
  EXPECT_TRUE(contains(read_text(sandbox / "results/compare/comparison.csv"), ",runs,"))
      << compared.out;
  EXPECT_EQ(sandbox.run(study + Arguments{"--resume"}).exit_code, 2);
}

TEST(Gates, EndWith5WhereNoRegressionWasSeenButOneCouldHide) {
  const Sandbox sandbox;
  write_text(sandbox / "a.jsonl", to_line(attention_record({.forward_ms = 1})));
  write_text(sandbox / "b.jsonl", to_line(attention_record({.forward_ms = 1.05})));
  write_text(sandbox / "c.jsonl", to_line(attention_record({.forward_ms = 3})));
  const auto gate = [&](const char* next, const Arguments& more) {
    return sandbox.run(Arguments{"compare", "a.jsonl", next, "--gate", "slower:3%"} + more);
  };
  const Finished undecided = gate("b.jsonl", {});
  EXPECT_EQ(undecided.exit_code, 5) << undecided.err;
  EXPECT_TRUE(contains(undecided.err, "could not judge")) << undecided.err;
  EXPECT_EQ(gate("b.jsonl", {"--unclear", "pass"}).exit_code, 0);
  EXPECT_EQ(gate("c.jsonl", {}).exit_code, 1) << "a regression goes before it";
  EXPECT_EQ(gate("c.jsonl", {"--unclear", "pass"}).exit_code, 1);
  EXPECT_EQ(gate("a.jsonl", {}).exit_code, 0);
}

}  // namespace
}  // namespace ridgeline
