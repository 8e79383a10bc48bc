#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "measure/test_support.h"
#include "studies/attention/tables.h"

namespace ridgeline::attention_study_test {
namespace {

std::string all_of(const std::vector<Record>& records) {
  std::string text;
  for (const std::string& sentence : with_verdicts<explain_attention>(records))
    text += sentence + "\n";
  return text;
}

void expect_sentence(const std::vector<Record>& records, const std::string& sentence) {
  const std::string text = all_of(records);
  EXPECT_HAS(text, sentence + "\n");
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
  EXPECT_TRUE(with_verdicts<explain_attention>({}).empty());
  EXPECT_TRUE(with_verdicts<explain_attention>(std::vector{attention_record({})}).empty());
}

TEST(Explain, TellsTheGrowthOfTimeAtTheEnd) {
  const std::vector<Record> records = sweep("naive", 2, 2);
  expect_sentence(records,
                  "naive: forward time grows as S^2.00 in 2 settings (1.99 to 2.01 within-run), "
                  "close to quadratic, from S 1024 to 4096.");
  expect_sentence(records,
                  "naive: backward time grows as S^1.00 in 2 settings (0.99 to 1.01 within-run), "
                  "close to linear, from S 1024 to 4096.");
}

TEST(Explain, OneCurveSaysWhatADoublingCosts) {
  std::vector<Record> records = sweep("naive", 1.5, 2);
  records.resize(3);
  expect_sentence(records,
                  "naive: forward time grows as S^1.50 (1.49 to 1.51 within-run), from S 1024 to "
                  "4096; at the end twice the length takes 2.8 times as long.");
}

// A launch costs the same at every length: it is no part of the growth.
TEST(Explain, NamesTheLengthsAtWhichFixedCostsDecide) {
  std::vector<Record> records;
  for (int seq_len = 128; seq_len <= 16384; seq_len *= 2)
    records.push_back(attention_record({.implementation = "flash",
                                        .seq_len = seq_len,
                                        .forward_ms = 0.012 + 1.03e-9 * seq_len * seq_len}));
  const std::string text = all_of(records);
  EXPECT_HAS(text,
             "flash: forward time grows as S^1.65 (1.64 to 1.66 within-run), from S 4096 "
             "to 16384 and still rising there; up to S 1024 the part that does not grow "
             "decides;");
}

// Rows that differ in a setting lie on curves of their own.
TEST(Explain, RowsOfAnotherMachineAreOtherRows) {
  std::vector<Record> records = sweep("naive", 2, 2);
  for (Record record : sweep("naive", 1, 2)) {
    record.machine.fingerprint = "another";
    records.push_back(record);
  }
  expect_sentence(
      records,
      "naive: forward time grows as S^1.00 to S^2.00 in 4 settings (0.99 to 2.01 within-run), from "
      "S 1024 to 4096.");
}

TEST(Explain, SettingsAreNotMixedIntoOneCurve) {
  std::vector<Record> records;
  for (const int threads : {1, 2})
    for (const int seq_len : {256, 1024, 4096}) {
      records.push_back(
          attention_record({.seq_len = seq_len, .forward_ms = 1e-5 * seq_len * seq_len / threads}));
      records.back().settings = {{"threads", threads}};
    }
  expect_sentence(records,
                  "naive: forward time grows as S^2.00 in 2 settings (1.99 to 2.01 within-run), "
                  "close to quadratic, from S 1024 to 4096.");
}

TEST(Explain, TellsTheGrowthOfMemoryAndItsFixedPart) {
  expect_sentence(
      sweep("naive", 2, 2),
      "naive: peak memory grows as S^2.00 in 2 settings, close to quadratic, from S 1024 "
      "to 4096; it is 1.00 GiB at S=4096 d=64.");
  std::vector<Record> records;
  for (int seq_len = 128; seq_len <= 65536; seq_len *= 2) {
    records.push_back(attention_record({.implementation = "torch.sdpa", .seq_len = seq_len}));
    records.back().memory.peak = Bytes{(17 << 19) + int64_t{2048} * seq_len};
  }
  expect_sentence(records,
                  "torch.sdpa: peak memory grows as S^0.88, close to linear, from S 16384 to "
                  "65536; up to S 2048 the "
                  "part that does not grow decides; 8.50 MiB do not grow; it is 136 MiB at S=65536 "
                  "d=64.");
}

TEST(Explain, OneDoublingIsTooLittleForALaw) {
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
      "naive: the smallest size that does not fit is S=16384 d=16, which needs 24.0 GiB by "
      "prediction; the longest that runs is S=8192 d=64.");
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

TEST(Explain, GivesGflopsAtTheLargestSizeAndTheConventionOnce) {
  std::vector<Record> records;
  for (const char* name : {"naive", "flash"}) {
    records.push_back(attention_record(
        {.implementation = name, .seq_len = 4096, .forward_ms = 2, .backward_ms = 10}));
    records.back().cost =
        CostFacts{{.flops = 300'000'000}, {.flops = 750'000'000}, "an FMA as two"};
  }
  expect_sentence(records,
                  "naive: at S=4096 d=64 forward reaches 150 GFLOP/s, backward 75.0 GFLOP/s.");
  const std::vector<std::string> sentences = with_verdicts<explain_attention>(records);
  EXPECT_EQ(sentences.back(), "FLOPs count an FMA as two.");
  EXPECT_EQ(std::count_if(sentences.begin(), sentences.end(),
                          [](const std::string& s) { return s.find("FMA") != s.npos; }),
            1);
}

TEST(Explain, ComparesImplementationsFirstByGeometricMean) {
  std::vector<Record> records;
  for (const auto& [name, short_ms, long_ms, backward_ms] :
       {std::tuple("naive", 20.0, 80.0, 10.0), {"flash", 10.0, 10.0, 20.0}})
    for (const int seq_len : {256, 512})
      records.push_back(attention_record({.implementation = name,
                                          .seq_len = seq_len,
                                          .forward_ms = seq_len == 256 ? short_ms : long_ms,
                                          .backward_ms = backward_ms}));
  EXPECT_EQ(
      with_verdicts<explain_attention>(records).at(0),
      "flash against naive: forward 4.00x as fast (geometric mean over 2 sizes; from 2.00x as "
      "fast at S=256 d=64 to 8.00x as fast at S=512 d=64), backward 2.00x slower (geometric "
      "mean over 2 sizes).");
}

TEST(Explain, AComparisonThatIsUndecidedSaysWhy) {
  std::vector<Record> records = {attention_record({.implementation = "naive", .forward_ms = 92.4}),
                                 attention_record({.implementation = "flash", .forward_ms = 10})};
  records[1].series[0] = series_of("forward", {10, 10, 10});
  records.resize(2);
  for (Record& record : records) record.series.resize(1);
  EXPECT_EQ(with_verdicts<explain_attention>(records).at(0),
            "flash against naive: forward undecided (9.24x as fast by the medians, S=256 d=64); "
            "undecided because: too few samples: 3, and 6 are needed.");
}

TEST(Explain, SaysInHowManyRowsRatiosAreRough) {
  std::vector<Record> records = {
      attention_record({.implementation = "naive"}), attention_record({.implementation = "flash"}),
      attention_record({.implementation = "naive", .seq_len = 512, .status = Status::oom}),
      attention_record({.implementation = "flash", .seq_len = 512})};
  EXPECT_LACKS(all_of(records), "Noisy");
  records[1].series[1] = series_of("backward", {1, 1, 1, 2, 2, 3, 3, 3});
  const std::string rough =
      "Noisy: in 1 row a median is not known to within 5 % within-run; take ratios there as rough.";
  expect_sentence(records, rough);
  records[3].series[0] = series_of("forward", {1, 1, 1});
  expect_sentence(records, rough +
                               " Too few samples in 1 row: fewer than 6 give no interval and no "
                               "verdict.");
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
  for (const std::string& sentence : with_verdicts<explain_attention>(records)) {
    EXPECT_LT(sentence.size(), 1000u);
    EXPECT_EQ(sentence.find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace ridgeline::attention_study_test
