// ridgeline report on good and on damaged results files.
#include <gtest/gtest.h>

#include "cli/run_ridgeline.h"
#include "cli/write_report.h"
#include "measure/record_json.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

TEST(ReportCommand, WritesAPageMarkdownAndFigures) {
  const Sandbox sandbox;
  write_text(sandbox / "results/a.jsonl", to_line(attention_record({.seq_len = 256})) +
                                              to_line(attention_record({.seq_len = 512})));
  const Finished run = sandbox.run(
      {"report", "results", "-o", "out/page.html", "-o", "out/page.md", "-o", "out/figure.svg"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(read_text(sandbox / "out/page.html").starts_with("<!doctype html>"));
  EXPECT_TRUE(read_text(sandbox / "out/page.md").starts_with("# Ridgeline report"));
  EXPECT_TRUE(read_text(sandbox / "out/figure-latency-forward.svg").starts_with("<svg "));
  EXPECT_HAS(run.out, "Report: out/page.html");
}

TEST(ReportCommand, FiguresOfTheSameNameAreNumbered) {
  const TempDir directory;
  const ReportSection section{
      .views = {{.charts = {{.id = "x"}, {.id = "x"}, {.id = "x"}, {.id = "x"}}}}};
  std::vector<std::string> names;
  for (const auto& path : write_document({.sections = {section}}, directory / "a.svg"))
    names.push_back(path.filename());
  EXPECT_EQ(names, (std::vector<std::string>{"a-x.svg", "a-x-2.svg", "a-x-3.svg", "a-x-4.svg"}));
}

TEST(ReportCommand, ABaseGivesVerdicts) {
  const Sandbox sandbox;
  const auto line_of = [](double ms, const std::string& name) {
    Record record = attention_record({.implementation = name});
    std::vector<double> samples;
    for (int i = 0; i < 24; ++i) samples.push_back(ms * (1 + (i % 2 ? 0.001 : -0.001)));
    record.series = {series_of("forward", samples)};
    return to_line(record);
  };
  const std::string hostile = "<script>alert(1)</script>";
  write_text(sandbox / "base.jsonl", line_of(10, "flash") + line_of(10, hostile));
  write_text(sandbox / "new.jsonl", line_of(20, "flash") + line_of(5, hostile));
  const Finished run =
      sandbox.run({"report", "new.jsonl", "--base", "base.jsonl", "-o", "r.md", "-o", "r.html"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* file : {"r.md", "r.html"}) {
    const std::string text = read_text(sandbox / file);
    for (const char* part : {"Faster or slower", "SLOWER", "FASTER", "0.500x"})
      EXPECT_HAS(text, part) << file << " lacks " << part;
    EXPECT_LACKS(text, hostile) << file;
  }
  for (const Arguments& base : {Arguments{"--baseline", "main"},
                                {"--base", "absent.jsonl"},
                                {"--base", "base.jsonl", "--baseline", "main"}}) {
    const Finished refused = sandbox.run(Arguments{"report", "new.jsonl"} + base);
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
  }
}

// A row of 24 samples around a time.
std::string timed_line(double ms, const std::string& name, const std::string& commit) {
  Record record = attention_record({.implementation = name});
  std::vector<double> samples;
  for (int i = 0; i < 24; ++i) samples.push_back(ms * (1 + 0.001 * (i % 5 - 2)));
  record.series = {series_of("forward", samples)};
  record.build.git_commit = commit;
  record.time = "2026-01-0" + commit.substr(6, 1) + "T00:00:00Z";
  return to_line(record);
}

TEST(ReportCommand, ArgumentsWithTheSameRowsAreComparedWithTheFirst) {
  const Sandbox sandbox;
  write_text(sandbox / "a.jsonl", timed_line(10, "flash", "commit1"));
  write_text(sandbox / "b.jsonl", timed_line(20, "flash", "commit2"));
  write_text(sandbox / "c.jsonl", timed_line(4, "flash", "commit3"));
  const Finished run =
      sandbox.run({"report", "a.jsonl", "b.jsonl", "c.jsonl", "-o", "r.html", "-o", "r.md"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string page = read_text(sandbox / "r.html");
  for (const char* part :
       {"b.jsonl against a.jsonl", "c.jsonl against a.jsonl", "What changed in machine and build",
        "commit1", "commit3", "Samples: ", "would have been seen", "SLOWER", "FASTER"})
    EXPECT_HAS(page, part);
  EXPECT_HAS(read_text(sandbox / "r.md"), "Did it become faster or slower than the base?");

  write_text(sandbox / "other.jsonl", timed_line(4, "naive", "commit4"));
  EXPECT_EQ(sandbox.run({"report", "a.jsonl", "other.jsonl", "-o", "r.html"}).exit_code, 0);
  EXPECT_LACKS(read_text(sandbox / "r.html"), "faster or slower than the base")
      << "other rows are more rows";
}

TEST(ReportCommand, HistoryIsAChartOverCommits) {
  const Sandbox sandbox;
  for (const auto& [ms, commit] :
       {std::pair(10.0, "commit1"), {10.0, "commit2"}, {40.0, "commit3"}}) {
    write_text(sandbox / "a.jsonl", timed_line(ms, "flash", commit));
    EXPECT_EQ(sandbox.run({"history", "--import", "a.jsonl", "--as", "main"}).exit_code, 0);
  }
  const Finished run = sandbox.run({"history", "--output", "h.html"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string page = read_text(sandbox / "h.html");
  for (const char* part : {"commit1", "commit3", "SLOWER 4.00x slower", "lower is better"})
    EXPECT_HAS(page, part);
  const Finished refused = sandbox.run({"history", "--output", "h.pdf"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_HAS(refused.err, "h.pdf");
}

TEST(ReportCommand, DamagedLinesAreNamedAndTheRestIsReported) {
  const Sandbox sandbox;
  std::string other_version = to_line(attention_record({}));
  other_version.replace(other_version.find("\"schema\":1"), 10, "\"schema\":9");
  const std::string good = to_line(attention_record({}));
  write_text(sandbox / "a.jsonl", good + other_version + "not json\n" +
                                      R"({"schema":1,"study":NaN})" + "\n" +
                                      good.substr(0, good.size() / 2));
  const Finished run = sandbox.run({"report", "a.jsonl"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* part :
       {"a.jsonl line 2: ", "a.jsonl line 3: ", "a.jsonl line 4: ", "a.jsonl line 5: "})
    EXPECT_HAS(run.err, part);
  EXPECT_HAS(read_text(sandbox / "report.html"), "4 lines could not be read");
}

TEST(ReportCommand, RefusesWhatItCannotWriteOrRead) {
  const Sandbox sandbox;
  write_text(sandbox / "a.jsonl", to_line(attention_record({})));
  write_text(sandbox / "empty/b.txt", "");
  write_text(sandbox / "bad.jsonl", "nothing\n");
  const auto refused = [&](const Arguments& arguments, const char* part) {
    const Finished run = sandbox.run(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_HAS(run.err, part);
  };
  refused({"report", "a.jsonl", "-o", "a.pdf"}, ".html, .md, .svg or .png");
  refused({"report", "missing.jsonl"}, "missing.jsonl");
  refused({"report", "empty"}, "holds no results file");
  refused({"report", "bad.jsonl"}, "nothing to report");
  refused({"report", "a.jsonl", "-o", "a.svg", "--figure", "nonsense"}, "latency-forward");
}

}  // namespace
}  // namespace ridgeline
