#include <gtest/gtest.h>

#include <cmath>

#include "measure/test_support.h"
#include "report/attention_report.h"

namespace ridgeline {
namespace {

std::string all_of(const std::vector<Record>& records) {
  std::string text;
  for (const std::string& sentence : explain_attention(records)) text += sentence + "\n";
  return text;
}

void expect_sentence(const std::vector<Record>& records, const std::string& sentence) {
  const std::string text = all_of(records);
  EXPECT_NE(text.find(sentence + "\n"), std::string::npos) << text;
}

// Rows at S = 256 ... 4096 whose times and memory follow exact power laws.
std::vector<Record> sweep(const std::string& implementation, double time_exponent,
                          double memory_exponent) {
  std::vector<Record> records;
  for (const int d_model : {16, 64}) {
    for (const int seq_len : {256, 1024, 4096}) {
      Record record =
          attention_record({.implementation = implementation,
                            .seq_len = seq_len,
                            .d_model = d_model,
                            .forward_ms = d_model * 1e-5 * std::pow(seq_len, time_exponent),
                            .backward_ms = d_model * 1e-4 * seq_len});
      record.memory.peak = Bytes{static_cast<int64_t>(64 * std::pow(seq_len, memory_exponent))};
      records.push_back(record);
    }
  }
  return records;
}

TEST(Explain, SaysNothingAboutNothing) {
  EXPECT_TRUE(explain_attention({}).empty());
  EXPECT_TRUE(explain_attention(std::vector{attention_record({})}).empty());
}

TEST(Explain, FitsTheGrowthOfTime) {
  expect_sentence(
      sweep("naive", 2, 2),
      "naive: forward time grows with the sequence length as S^2.00, close to quadratic; "
      "backward as S^1.00, close to linear (S from 256 to 4096): twice the length takes "
      "4.0 times as long forward.");
}

TEST(Explain, DoesNotCallAnOddExponentQuadraticOrLinear) {
  const std::string text = all_of(sweep("naive", 1.5, 2));
  EXPECT_NE(text.find("length as S^1.50; backward"), std::string::npos) << text;
}

TEST(Explain, FitsTheGrowthOfMemory) {
  expect_sentence(
      sweep("naive", 2, 2),
      "naive: peak memory grows as S^2.00, close to quadratic, to 1.00 GiB at S=4096 d=64.");
}

TEST(Explain, TwoLengthsAreTooFewForAFit) {
  const std::vector<Record> records = {attention_record({.seq_len = 256}),
                                       attention_record({.seq_len = 512, .forward_ms = 4})};
  EXPECT_EQ(all_of(records), "");
}

TEST(Explain, NamesTheShareOfQuadraticTensorsAtTheLongestSequence) {
  std::vector<Record> records = sweep("naive", 2, 2);
  records.back().memory.predicted_peak = Bytes{1000};
  records.back().memory.predicted_quadratic = Bytes{970};
  expect_sentence(
      records,
      "naive: at S=4096 d=64, tensors of S x S elements hold 97% of the predicted peak of "
      "1000 B.");
}

TEST(Explain, DrawsTheMemoryFrontierPerImplementation) {
  std::vector<Record> records = {attention_record({.seq_len = 8192})};
  records.push_back(attention_record({.seq_len = 16384, .d_model = 64, .status = Status::oom}));
  records.push_back(attention_record({.seq_len = 16384, .d_model = 16, .status = Status::oom}));
  records[1].memory.predicted_peak = Bytes{int64_t{26} << 30};
  records[2].memory.predicted_peak = Bytes{int64_t{24} << 30};
  expect_sentence(
      records,
      "naive: runs up to S=8192 d=64; the smallest size that runs out of memory is batch 8 "
      "S=16384 d=16, which needs 24.0 GiB.");
}

TEST(Explain, ReportsTheErrorNearestToItsTolerance) {
  std::vector<Record> records = {attention_record({.seq_len = 256}),
                                 attention_record({.seq_len = 512})};
  records[0].verification = {
      true, "whole tensors", "fp64", {{"output", 1e-6, 1e-4}, {"dQ", 1e-7, 0}}};
  records[1].verification = {true, "whole tensors", "fp64", {{"dQ", 2e-6, 1e-5}}};
  expect_sentence(
      records,
      "naive: of all errors against the fp64 oracle, 2e-06 in dQ at S=512 d=64 is the nearest to "
      "its tolerance: 20% of 1e-05 (2 rows checked).");
}

TEST(Explain, SaysWhichRowItMeansWhereSizesAloneDoNot) {
  std::vector<Record> records = {attention_record({.seq_len = 512}),
                                 attention_record({.seq_len = 512, .dtype = "bf16"})};
  records[0].verification = {true, "whole tensors", "fp64", {{"dQ", 2e-6, 1e-5}}};
  records[1].verification = {true, "whole tensors", "fp64", {{"dQ", 4e-3, 1e-1}}};
  expect_sentence(
      records,
      "naive: of all errors against the fp64 oracle, 2e-06 in dQ at S=512 d=64 fp32 is the nearest "
      "to its tolerance: 20% of 1e-05 (2 rows checked).");
}

TEST(Explain, GivesGflopsAtTheLargestSizeWithTheConvention) {
  std::vector<Record> records = {
      attention_record({.seq_len = 4096, .forward_ms = 2, .backward_ms = 10})};
  records[0].cost =
      CostFacts{{.flops = 300'000'000}, {.flops = 750'000'000}, "an FMA counts as two"};
  expect_sentence(
      records,
      "naive: at S=4096 d=64 forward reaches 150 GFLOP/s, backward 75.0 GFLOP/s (an FMA "
      "counts as two).");
}

TEST(Explain, ComparesImplementationsByGeometricMean) {
  const std::vector<Record> records = {
      attention_record(
          {.implementation = "naive", .seq_len = 256, .forward_ms = 2, .backward_ms = 1}),
      attention_record(
          {.implementation = "naive", .seq_len = 512, .forward_ms = 8, .backward_ms = 1}),
      attention_record(
          {.implementation = "flash", .seq_len = 256, .forward_ms = 1, .backward_ms = 2}),
      attention_record(
          {.implementation = "flash", .seq_len = 512, .forward_ms = 1, .backward_ms = 2})};
  expect_sentence(
      records,
      "flash against naive: forward 4.00x as fast over 2 sizes, backward 0.50x as fast over "
      "2 sizes (geometric means).");
}

TEST(Explain, SaysInHowManyRowsRatiosAreRough) {
  std::vector<Record> records = {
      attention_record({.implementation = "naive"}), attention_record({.implementation = "flash"}),
      attention_record({.implementation = "naive", .seq_len = 512, .status = Status::oom}),
      attention_record({.implementation = "flash", .seq_len = 512})};
  EXPECT_EQ(all_of(records).find("Noisy"), std::string::npos);
  records[1].series[1] = series_of("backward", {1, 1, 1, 2, 2, 3, 3, 3});
  expect_sentence(
      records, "Noisy: in 1 row a median is not known to within 5 %; take ratios there as rough.");
  records[3].series[0] = series_of("forward", {1, 1, 1});  // too few to know
  expect_sentence(
      records, "Noisy: in 2 rows a median is not known to within 5 %; take ratios there as rough.");
}

TEST(Explain, NamesRowsThatAreNoResults) {
  Record wrong = attention_record({.status = Status::wrong});
  wrong.error = "dQ is off\x1b[2J";
  expect_sentence({attention_record({.seq_len = 512}), wrong},
                  "1 row is wrong, so its times are not shown; the first: naive S=256 d=64: dQ is "
                  "off\\x1b[2J.");
}

TEST(Explain, HostileNamesStayHarmless) {
  std::vector<Record> records = sweep("\x1b[2J" + std::string(1 << 20, 'n'), 2, 2);
  for (const std::string& sentence : explain_attention(records)) {
    EXPECT_LT(sentence.size(), 1000u);
    EXPECT_EQ(sentence.find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace ridgeline
