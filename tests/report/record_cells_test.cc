#include "report/record_cells.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

TEST(RecordCells, AnyMemberIsTextAndNoneIsEmpty) {
  const Json object = {{"text", std::string(200, 'x')}, {"yes", true},       {"whole", -3},
                       {"large", UINT64_MAX},           {"fraction", 0.125}, {"list", {1, 2}}};
  EXPECT_EQ(text_of(object, "text"), std::string(200, 'x')) << "not cut";
  EXPECT_EQ(text_of(object, "yes"), "True");
  EXPECT_EQ(text_of(object, "whole"), "-3");
  EXPECT_EQ(text_of(object, "large"), "18446744073709551615");
  EXPECT_EQ(text_of(object, "fraction"), "0.125");
  EXPECT_EQ(text_of(object, "list"), "");
  EXPECT_EQ(text_of(object, "none"), "");
  for (const Json& damaged : {Json(), Json("text"), Json(7), Json::array({1})})
    EXPECT_EQ(text_of(damaged, "text"), "");
}

TEST(RecordCells, NumbersAreThoseOfGoodRows) {
  Record record = attention_record({.forward_ms = 3});
  record.metrics = Json{{"forward", {{"mfu", 0.5}, {"word", "x"}}}, {"flat", 1}};
  EXPECT_EQ(metric_of(record, "forward", "mfu"), 0.5);
  EXPECT_EQ(statistic(record, "forward", &Statistics::median_ms), 3);
  for (const auto& [phase, name] :
       {std::pair{"forward", "word"}, {"forward", "none"}, {"flat", "mfu"}, {"none", "mfu"}})
    EXPECT_FALSE(metric_of(record, phase, name)) << phase << ' ' << name;
  record.series[0].statistics.std_ms = Statistics::kUnknown;
  EXPECT_FALSE(statistic(record, "forward", &Statistics::std_ms));
  EXPECT_FALSE(statistic(record, "none", &Statistics::median_ms));
  record.status = Status::oom;
  EXPECT_FALSE(metric_of(record, "forward", "mfu"));
  EXPECT_FALSE(statistic(record, "forward", &Statistics::median_ms));
  EXPECT_EQ(metric_in(record.metrics, "forward", "mfu"), 0.5);
  for (const Json& damaged : {Json(), Json("text"), Json::array({1})})
    EXPECT_FALSE(metric_in(damaged, "forward", "mfu"));
}

TEST(RecordCells, AnErrorThatIsNanIsTheWorst) {
  Record record = attention_record({});
  record.verification = {false, "", "fp64", {{"a", 1, 4}, {"b", 3, 4}, {"c", 2, 4}}};
  EXPECT_FALSE(worst_error(record));
  record.verification.checked = true;
  EXPECT_EQ(worst_error(record), 0.75);
  for (TensorError& tensor : record.verification.tensors) {
    const double before = std::exchange(tensor.max_error, std::nan(""));
    EXPECT_EQ(cell(worst_error(record)), "nan") << tensor.name;
    tensor.max_error = before;
  }
}

TEST(RecordCells, IntervalsSayWhetherTheyAreOfOneRun) {
  Record single = attention_record({}), merged = attention_record({});
  merged.merged_runs = 5;
  EXPECT_EQ(interval_kind(std::vector<const Record*>{&single}), "within-run");
  EXPECT_EQ(interval_kind(std::vector<const Record*>{&merged}), "between runs");
  EXPECT_EQ(interval_kind(std::vector<const Record*>{&single, &merged}),
            "within-run or between runs");
}

// Five runs have no 95 % interval of their median, but still get verdicts.
TEST(RecordCells, FewRunsAreNotTooFewSamples) {
  Record record = attention_record({});
  for (Series& series : record.series) series = series_of(series.name, {10, 10, 10, 10, 10.1});
  const std::vector<const Record*> rows = {&record};
  EXPECT_EQ(noise_note(rows),
            "Too few samples in 1 row: fewer than 6 give no interval and no verdict");
  record.merged_runs = 5;
  EXPECT_EQ(noise_note(rows), "");
  record.series[0] = series_of("forward", {8, 9, 10, 11, 12});
  EXPECT_EQ(
      noise_note(rows),
      "Noisy: in 1 row a median is not known to within 5 % between runs; take ratios there as "
      "rough");
}

}  // namespace
}  // namespace ridgeline
