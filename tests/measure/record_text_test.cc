#include "measure/record_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "measure/gate.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

TEST(RecordText, WritesValuesAsTheCsvDoes) {
  const Json values = {{"dtype", "fp32"}, {"seq_len", 256}, {"causal", false}};
  EXPECT_EQ(values_text(values), " dtype=fp32 seq_len=256 causal=False");
}

TEST(RecordText, IsShortAndPlainWhateverARecordHolds) {
  Json values = Json::object();
  for (int i = 0; i < 10'000; ++i) values[fmt::format("\x1b{}", i)] = std::string(1000, 'x');
  const std::string text = values_text(values);
  EXPECT_LT(text.size(), 500u);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

// An error, a gate and a sentence write the same workload alike.
TEST(RecordText, AllThatCompareSaysWritesItTheSameWay) {
  Record base = attention_record({}), next = base;
  const std::string words = values_text(base.workload);
  next.series = {series_of("forward", std::vector(7, 10.0))};
  base.series = {series_of("forward", std::vector(7, 1.0))};
  base.settings["threads"] = 1, next.settings["threads"] = 2;
  EXPECT_ERROR(compare_records({&base, 1}, {&next, 1}, {}), ErrorKind::usage, words);
  const Comparison comparison = compare_records({&base, 1}, {&next, 1}, {.force = true});
  const std::vector<std::string> failed = judge(parse_gate("slower:3%"), comparison).failures;
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_HAS(failed[0], "forward" + words + ":");
}

}  // namespace
}  // namespace ridgeline
