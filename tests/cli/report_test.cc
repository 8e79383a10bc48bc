// ridgeline report on good and on damaged results files.
#include <gtest/gtest.h>

#include "cli/run_ridgeline.h"
#include "measure/record_json.h"

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
  EXPECT_NE(run.out.find("Report: out/page.html"), std::string::npos) << run.out;
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
       {"a.jsonl:2: not read:", "a.jsonl:3: not read:", "a.jsonl:4:", "a.jsonl:5:"})
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
  EXPECT_NE(read_text(sandbox / "report.html").find("4 lines could not be read"),
            std::string::npos);
}

TEST(ReportCommand, RefusesWhatItCannotWriteOrRead) {
  const Sandbox sandbox;
  write_text(sandbox / "a.jsonl", to_line(attention_record({})));
  write_text(sandbox / "empty/b.txt", "");
  write_text(sandbox / "bad.jsonl", "nothing\n");
  const auto refused = [&](const Arguments& arguments, const char* part) {
    const Finished run = sandbox.run(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
  };
  refused({"report", "a.jsonl", "-o", "a.pdf"}, ".html, .md, .svg or .png");
  refused({"report", "missing.jsonl"}, "missing.jsonl");
  refused({"report", "empty"}, "holds no results file");
  refused({"report", "bad.jsonl"}, "nothing to report");
  refused({"report", "a.jsonl", "-o", "a.svg", "--figure", "nonsense"}, "latency-forward");
}

}  // namespace
}  // namespace ridgeline
