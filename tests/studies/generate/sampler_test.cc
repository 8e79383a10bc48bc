// Which tokens may be drawn, and how often.
#include "studies/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace ridgeline::generate_study_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int32_t> ids_of(const std::vector<Candidate>& of) {
  std::vector<int32_t> ids;
  for (const Candidate& candidate : of) ids.push_back(candidate.id);
  return ids;
}

ErrorKind kind_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::internal;
}

TEST(TokenSampler, ProbabilitiesAreThoseOfASoftmaxAtItsTemperature) {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 1.0F};
  for (const double temperature : {0.5, 1.0, 3.0}) {
    const auto drawn = candidates(logits, {.temperature = temperature});
    EXPECT_EQ(ids_of(drawn), (std::vector<int32_t>{1, 3, 0, 2}));
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit / temperature);
    for (const Candidate& candidate : drawn)
      EXPECT_NEAR(candidate.probability,
                  std::exp(logits[static_cast<size_t>(candidate.id)] / temperature) / sum, 1e-12);
  }
}

TEST(TokenSampler, TopKAndTopPKeepTheLikeliest) {
  // 0.4, 0.3, 0.2 and 0.1, in another order.
  std::vector<float> logits;
  for (const double p : {0.2, 0.4, 0.1, 0.3}) logits.push_back(static_cast<float>(std::log(p)));
  const auto kept = [&](int64_t top_k, double top_p) {
    const auto drawn = candidates(logits, {.temperature = 1, .top_k = top_k, .top_p = top_p});
    double sum = 0;
    for (const Candidate& candidate : drawn) sum += candidate.probability;
    EXPECT_NEAR(sum, 1, 1e-12);
    return ids_of(drawn);
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(kept(2, 1), (Ids{1, 3}));
  EXPECT_EQ(kept(100, 1), (Ids{1, 3, 0, 2})) << "more than there are";
  EXPECT_EQ(kept(0, 0.65), (Ids{1, 3}));
  EXPECT_EQ(kept(0, 0.75), (Ids{1, 3, 0}));
  EXPECT_EQ(kept(0, 1e-9), Ids{1}) << "never none";
  EXPECT_EQ(kept(2, 0.5), Ids{1}) << "of the two that are left it has 4/7";
}

TEST(TokenSampler, EqualLogitsGoByTheLowerId) {
  const std::vector<float> logits = {1, 3, 3, 3, 2};
  EXPECT_EQ(ids_of(candidates(logits, {.temperature = 1, .top_k = 2})),
            (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(ids_of(candidates(logits, {})), std::vector<int32_t>{1}) << "greedy";
}

TEST(TokenSampler, TokensOfMinusInfinityAreNeverDrawn) {
  const std::vector<float> logits = {-kInfinity, 1, -kInfinity};
  EXPECT_EQ(ids_of(candidates(logits, {.temperature = 1})), std::vector<int32_t>{1});
}

TEST(TokenSampler, SmallTemperaturesAndLargeLogitsStayFinite) {
  const std::vector<float> logits = {3e38F, -3e38F, 2.9e38F};
  const auto drawn = candidates(logits, {.temperature = 1e-300});
  ASSERT_EQ(ids_of(drawn), std::vector<int32_t>{0});
  EXPECT_EQ(drawn[0].probability, 1);
}

TEST(TokenSampler, LogitsThatAreNoNumbersAreAWrongResult) {
  for (const std::vector<float>& logits :
       {std::vector<float>{0, NAN, 1}, {0, kInfinity}, {-kInfinity, -kInfinity}})
    for (const SamplingRules& rules : {SamplingRules{}, SamplingRules{.temperature = 1}})
      EXPECT_EQ(kind_of([&] { candidates(logits, rules); }), ErrorKind::wrong_result);
}

TEST(TokenSampler, TheSeedDecidesAndFrequenciesFollow) {
  const std::vector<float> logits = {std::log(0.7F), std::log(0.2F), std::log(0.1F)};
  TokenSampler one({.temperature = 1}, 7), same({.temperature = 1}, 7),
      other({.temperature = 1}, 8);
  constexpr int kDraws = 20'000;
  std::vector<int> counts(3);
  int differ = 0;
  for (int i = 0; i < kDraws; ++i) {
    const int32_t id = one.next(logits);
    ASSERT_EQ(id, same.next(logits));
    differ += id != other.next(logits);
    ++counts[static_cast<size_t>(id)];
  }
  EXPECT_GT(differ, kDraws / 10);
  EXPECT_NEAR(counts[0], 0.7 * kDraws, 0.02 * kDraws);
  EXPECT_NEAR(counts[1], 0.2 * kDraws, 0.02 * kDraws);
}

TEST(TokenSampler, RulesThatMakeNoSenseAreRefused) {
  for (const SamplingRules& rules :
       {SamplingRules{.temperature = -1}, SamplingRules{.temperature = NAN},
        SamplingRules{.temperature = kInfinity}, SamplingRules{.temperature = 1, .top_k = -1},
        SamplingRules{.temperature = 1, .top_p = 0}, SamplingRules{.temperature = 1, .top_p = 1.5},
        SamplingRules{.top_k = 3}, SamplingRules{.top_p = 0.5}})
    EXPECT_EQ(kind_of([&] { check(rules); }), ErrorKind::usage);
  check(SamplingRules{});
  check(SamplingRules{.temperature = 0.8, .top_k = 64, .top_p = 0.95});
}

}  // namespace
}  // namespace ridgeline::generate_study_test
