// Sentences below a comparison.
#include "report/terminal/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "measure/test_support.h"

namespace ridgeline::compare_sentences_test {
namespace {

std::string sentences(const Comparison& comparison) {
  std::string text;
  for (const std::string& sentence : comparison_sentences(comparison)) text += sentence + "\n";
  return text;
}

TEST(ComparisonSentences, CountInTheSingularAndInThePlural) {
  const Record base = attention_record({.forward_ms = 3}), next = attention_record({});
  Comparison comparison = compare_records({&base, 1}, {&next, 1}, {});
  ASSERT_GE(comparison.rows.size(), 2u);
  comparison.missing = {"flash backward"};
  for (RowComparison& row : comparison.rows) row.in_doubt = row.two_modes = false;
  comparison.rows[0].in_doubt = comparison.rows[0].two_modes = true;
  const std::string one = sentences(comparison);
  for (const char* part :
       {" 1 of the lines is in doubt, because of the machine.",
        "1 line has two modes:", "1 row or phase of the base is not in the new results,"})
    EXPECT_HAS(one, part);
  comparison.missing.emplace_back("flash forward");
  comparison.rows[1].in_doubt = comparison.rows[1].two_modes = true;
  const std::string two = sentences(comparison);
  for (const char* part :
       {" 2 of the lines are in doubt, because of the machine.",
        "2 lines have two modes:", "2 rows or phases of the base are not in the new results,"})
    EXPECT_HAS(two, part);
}

TEST(ComparisonSentences, TheMeanOfTheSpeedupsIsThatOfTheTable) {
  const Record base = attention_record({.forward_ms = 3}), next = attention_record({});
  Comparison comparison = compare_records({&base, 1}, {&next, 1}, {});
  ASSERT_EQ(comparison.rows.size(), 2u);
  for (RowComparison& row : comparison.rows) {
    row.verdict = Verdict::unclear;
    row.log_time = {-std::log(2), -std::log(4), 0};  // of the rounds
  }
  comparison.rows[0].base_ms = 8 * comparison.rows[0].new_ms;
  comparison.rows[1].base_ms = 2 * comparison.rows[1].new_ms;
  EXPECT_HAS(
      sentences(comparison),
      "Geometric mean of the speedups: 4.000x, by the rounds 2.000x (1.000 to 4.000), 2.000x "
      "faster.");
  comparison.rows[0].base_ms = 2 * comparison.rows[0].new_ms;
  EXPECT_HAS(sentences(comparison),
             "Geometric mean of the speedups: 2.000x (1.000 to 4.000), 2.000x faster.");
}

TEST(ComparisonSentences, TheCommandThatWouldDecideMeasuresTheSameSidesInTurns) {
  const auto advice = [](const Record& base, const Record& next, const CompareOptions& options) {
    Comparison comparison = compare_records({&base, 1}, {&next, 1}, options);
    for (RowComparison& row : comparison.rows) row.verdict = Verdict::unclear;
    return sentences(comparison);
  };
  const Record flash = attention_record({.implementation = "flash"});
  EXPECT_HAS(advice(flash, flash, {}), "`ridgeline compare --interleave --binary BASE,NEW -- ...`");
  Record naive = flash;
  naive.implementation = "naive";
  const CompareOptions two = {.implementations = {{"naive", "flash"}}};
  EXPECT_HAS(advice(naive, flash, two),
             "`ridgeline compare --interleave --impl naive,flash -- ...`");
  naive.metrics = Json{{"peer", Json::object()}};
  const std::string of_a_peer = advice(naive, flash, two);
  EXPECT_HAS(of_a_peer, "fresh runs of both sides");
  EXPECT_EQ(of_a_peer.find("--interleave"), std::string::npos) << of_a_peer;
}

}  // namespace
}  // namespace ridgeline::compare_sentences_test
