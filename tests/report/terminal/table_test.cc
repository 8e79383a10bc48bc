#include "report/terminal/table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

TEST(TextTable, AlignsNumbersRightAndTextLeft) {
  const Table table{.title = "times",
                    .columns = {"impl", "ms", "speedup"},
                    .rows = {{"naive", "12.50", "-"}, {"flash", "3.1", "4.03x"}, {"x", "OOM", ""}}};
  EXPECT_EQ(to_text(table),
            "times\n"
            "impl      ms  speedup\n"
            "-----  -----  -------\n"
            "naive  12.50        -\n"
            "flash    3.1    4.03x\n"
            "x        OOM\n");
}

TEST(TextTable, TextThatBeginsWithADigitIsNoNumber) {
  const std::string text = to_text(
      {.columns = {"a row and its name", "ms"}, .rows = {{"2.7B context=8 batch=4, b", "1"}}});
  EXPECT_HAS(text, "\n2.7B context");
  const std::string numbers = to_text({.columns = {"launches per step"}, .rows = {{"526 -> 111"}}});
  EXPECT_HAS(numbers, "  526 -> 111\n");
}

TEST(TextTable, ReasonsAreWholeOrStandBelowTheTable) {
  const std::string reason = "under 1 ms, measured apart, and no noise floor of it is stored here";
  const Table table{.columns = {"row", "note"}, .rows = {{"1", reason}, {"2", ""}, {"3", reason}}};
  EXPECT_HAS(to_text(table), "  1  " + reason + "\n");
  EXPECT_EQ(to_text(table, {.width = 71}),
            "row  note\n---  ----\n  1  [1]\n  2\n  3  [1]\n[1] " + reason + "\n");
}

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(NarrowTable, GoesWithoutSpareColumnsAndSaysWhereTheyAre) {
  const Table table{.title = "times",
                    .columns = {"impl", "ms", "p95", "p99"},
                    .rows = {{"naive", "12.50", "13.00", "14.00"}},
                    .spare = {"p99", "p95"}};
  EXPECT_EQ(to_text(table, {.width = 26}), to_text(table)) << "it fits";
  const std::string text = to_text(table, {.width = 25, .whole_in = "t.csv"});
  EXPECT_TRUE(
      text.starts_with("times\n"
                       "impl      ms    p95\n"
                       "-----  -----  -----\n"
                       "naive  12.50  13.00\n"
                       "(Left out to fit 25"))
      << text;
  EXPECT_LE(widest_line(text), 25u) << text;
  std::string in_one_line = text;
  std::replace(in_one_line.begin(), in_one_line.end(), '\n', ' ');
  EXPECT_HAS(in_one_line, "p99; ") << "not p95, which fits: " << text;
  EXPECT_HAS(in_one_line, "t.csv has") << text;
  EXPECT_LACKS(to_text(table, {.width = 18}), "p95\n") << "both are left out";
}

TEST(NarrowTable, LosesFiguresBeforeAColumnThatTellsRowsApart) {
  Table table{.columns = {"model", "precision", "ms", "p99"},
              .rows = {{"small", "fp32", "2", "3"}, {"small", "mixed", "1", "2"}},
              .spare = {"precision", "p99"},
              .axes = {"precision"}};
  EXPECT_HAS(to_text(table, {.width = 20}), "small  mixed");
  EXPECT_LACKS(to_text(table, {.width = 20}), "p99\n");
  table.rows[1][1] = "fp32";
  EXPECT_HAS(to_text(table, {.width = 20}), "p99\n") << "all rows are fp32";
}

TEST(NarrowTable, NeverLosesAColumnThatIsNotSpare) {
  const Table table{.columns = {"implementation", "status"}, .rows = {{"naive", "ok"}}};
  EXPECT_EQ(to_text(table, {.width = 10}), to_text(table));
}

TEST(NarrowTable, LongCellsStandBelowItRatherThanWrap) {
  const Table table{.columns = {"row", "reason"},
                    .rows = {{"1", "the predicted peak is above the budget"}, {"2", "ok"}}};
  const std::string text = to_text(table, {.width = 24});
  EXPECT_LE(widest_line(text), 24u) << text;
  EXPECT_HAS(text, "  1  [1]\n");
  EXPECT_HAS(text, "[1] the predicted peak\n");
}

TEST(NarrowTable, ASpareColumnThatIsNotThereIsAnError) {
  const Table table{.columns = {"a long name"}, .rows = {{"1"}}, .spare = {"p99"}};
  EXPECT_ERROR(to_text(table, {.width = 5}), ErrorKind::internal, "'p99'");
}

TEST(TerminalWidth, IsThatOfColumnsOrADefaultInAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto with = [&](const char* columns) {
    setenv("COLUMNS", columns, 1);
    return terminal_width(ends[1]);
  };
  EXPECT_EQ(with("80"), 80u);
  EXPECT_EQ(with("100"), 100u);
  EXPECT_EQ(with("wide"), kWidthElsewhere);
  EXPECT_EQ(with("0"), kWidthElsewhere);
  EXPECT_EQ(with("-5"), kWidthElsewhere);
  unsetenv("COLUMNS");
  EXPECT_EQ(terminal_width(ends[1]), kWidthElsewhere);
  close(ends[0]);
  close(ends[1]);
}

TEST(TextTable, ShowsHostileCellsHarmlesslyAndCutsEndlessOnes) {
  const Table table{.columns = {"error"}, .rows = {{"\x1b[2J\nrow"}, {std::string(1 << 20, 'x')}}};
  const std::string text = to_text(table);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_HAS(text, "\\x1b[2J\\nrow");
  EXPECT_LT(text.size(), 1000u);
}

TEST(TextTable, ATableWithoutRowsStillHasItsHeader) {
  EXPECT_EQ(to_text({.columns = {"a", "bc"}}), "a  bc\n-  --\n");
}

TEST(CsvTable, QuotesAsRfc4180Says) {
  const Table table{.title = "not in the file",
                    .columns = {"a", "b,c"},
                    .rows = {{"plain", "say \"hi\""}, {"1,5", "two\nlines"}, {"", "cr\r"}}};
  EXPECT_EQ(to_csv(table),
            "a,\"b,c\"\n"
            "plain,\"say \"\"hi\"\"\"\n"
            "\"1,5\",\"two\nlines\"\n"
            ",\"cr\r\"\n");
}

TEST(CsvTable, KeepsControlCharactersOut) {
  const Table table{.columns = {"a"}, .rows = {{std::string("nul\0 esc\x1b tab\t", 14)}}};
  EXPECT_EQ(to_csv(table), "a\nnul\\x00 esc\\x1b tab\t\n");
}

TEST(MarkdownTable, EscapesWhatMarkdownAndHtmlActUpon) {
  const Table table{
      .title = "t", .columns = {"name", "ms"}, .rows = {{"a|b <script>&[x](y) `c`\n", "1.5"}}};
  EXPECT_EQ(to_markdown(table),
            "### t\n\n"
            "| name | ms |\n"
            "|---|---:|\n"
            "| a\\|b &lt;script&gt;&amp;\\[x\\](y) \\`c\\`\\n | 1.5 |\n");
}

TEST(OutputFormat, IsChosenByTheEnding) {
  EXPECT_EQ(output_format("a/b.csv"), OutputFormat::csv);
  EXPECT_EQ(output_format("b.md"), OutputFormat::markdown);
  EXPECT_EQ(output_format("b.jsonl"), OutputFormat::jsonl);
  EXPECT_ERROR(output_format("b.xlsx"), ErrorKind::usage, "'.xlsx': expected .csv, .md or .jsonl");
  EXPECT_ERROR(output_format("csv"), ErrorKind::usage, "'csv' has no ending");
}

TEST(WriteTable, WritesTheFormatOfTheEnding) {
  const TempDir dir;
  const Table table{.title = "t", .columns = {"a"}, .rows = {{"1"}}};
  write_table(dir / "new/t.csv", table);
  write_table(dir / "new/t.md", table);
  EXPECT_EQ(read_text(dir / "new/t.csv"), to_csv(table));
  EXPECT_EQ(read_text(dir / "new/t.md"), to_markdown(table));
  EXPECT_ERROR(write_table(dir / "t.jsonl", table), ErrorKind::internal, "records");
}

}  // namespace
}  // namespace ridgeline
