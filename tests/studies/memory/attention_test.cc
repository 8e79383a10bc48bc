// The account of attention's memory against arithmetic by hand.
#include "studies/memory/attention.h"
#include "support/expect.h"

#include <gtest/gtest.h>

#include <map>

namespace ridgeline::memory_study_test {
namespace {

// Batch 8, S 8192, d 16, fp32.
constexpr AttentionConfig kConfig{.batch_size = 8, .seq_len = 8192, .head_dim = 16};
constexpr int64_t kThin = 8LL * 8192 * 16 * 4;      // S x d: 4 MiB
constexpr int64_t kSquare = 8LL * 8192 * 8192 * 4;  // S x S: 2 GiB
constexpr int64_t kLogSumExp = 8LL * 8192 * 4;      // one number per query: 256 KiB
constexpr int64_t kMask = 8192LL * 8192;            // one byte per pair, for all of the batch

using Account = std::map<std::string, int64_t>;

Account as_map(const std::vector<MemoryItem>& items) {
  Account account;
  for (const MemoryItem& item : items) account[item.name] += item.bytes.count;
  return account;
}

int64_t sum(const std::vector<MemoryItem>& items) {
  int64_t total = 0;
  for (const MemoryItem& item : items) total += item.bytes.count;
  return total;
}

TEST(AccountAttention, ForwardOfNaiveIsInputsTwoScoresWeightsAndOutput) {
  EXPECT_EQ(as_map(account_attention(kConfig, AttentionForm::plain).forward),
            (Account{{"inputs", 4 * kThin},
                     {"scores", 2 * kSquare},  // before and after the scale
                     {"weights", kSquare},
                     {"output", kThin}}));
}

TEST(AccountAttention, NaiveSavesTheWeightsForBackward) {
  const AttentionMemory account = account_attention(kConfig, AttentionForm::plain);
  EXPECT_EQ(as_map(account.saved),
            (Account{{"inputs", 4 * kThin}, {"weights", kSquare}, {"output", kThin}}));
  EXPECT_EQ(account.before_backward.count, 2'168'455'168);
}

TEST(AccountAttention, BackwardOfNaiveHasAGradientPerTensor) {
  EXPECT_EQ(as_map(account_attention(kConfig, AttentionForm::plain).backward),
            (Account{{"d_q", kThin},
                     {"d_k", kThin},
                     {"d_v", kThin},
                     {"gradient of the weights", kSquare},
                     {"gradient of the scores", 2 * kSquare}}));
}

TEST(AccountAttention, TheWorstMomentOfNaiveHoldsThreeSquares) {
  const AttentionMemory account = account_attention(kConfig, AttentionForm::plain);
  EXPECT_EQ(as_map(account.at_peak), (Account{{"inputs", 4 * kThin},
                                              {"output", kThin},
                                              {"d_v", kThin},
                                              {"weights", kSquare},
                                              {"gradient of the weights", kSquare},
                                              {"gradient of the scores", kSquare}}));
  EXPECT_EQ(account.peak.count, 6'467'616'768);
  EXPECT_EQ(account.peak_moment, "softmax_gradient of the backward pass");
}

// Then S x S tensors are as large as those of S x d.
TEST(AccountAttention, HeadsAsWideAsTheSequenceIsLongHaveTheSameTensors) {
  constexpr int64_t kBytes = 8LL * 64 * 64 * 4;
  const AttentionConfig config{.batch_size = 8, .seq_len = 64, .head_dim = 64};
  const AttentionMemory account = account_attention(config, AttentionForm::plain);
  EXPECT_EQ(as_map(account.backward), (Account{{"d_q", kBytes},
                                               {"d_k", kBytes},
                                               {"d_v", kBytes},
                                               {"gradient of the weights", kBytes},
                                               {"gradient of the scores", 2 * kBytes}}));
  EXPECT_EQ(as_map(account.at_peak), (Account{{"inputs", 4 * kBytes},
                                              {"output", kBytes},
                                              {"d_v", kBytes},
                                              {"weights", kBytes},
                                              {"gradient of the weights", kBytes},
                                              {"gradient of the scores", kBytes}}));
}

TEST(AccountAttention, TheCausalMaskIsKeptForBackward) {
  AttentionConfig causal = kConfig;
  causal.causal = true;
  const AttentionMemory account = account_attention(causal, AttentionForm::plain);
  EXPECT_EQ(as_map(account.saved)["mask"], kMask);
  EXPECT_EQ(account.before_backward.count, 5 * kThin + kSquare + kMask);
  EXPECT_EQ(account.peak.count, 6 * kThin + 3 * kSquare + kMask);
}

TEST(AccountAttention, FlashHasNoSquares) {
  for (const bool causal : {false, true}) {
    AttentionConfig config = kConfig;
    config.causal = causal;
    const AttentionMemory account = account_attention(config, AttentionForm::fused);
    const Account saved = {{"inputs", 4 * kThin}, {"output", kThin}, {"log-sum-exp", kLogSumExp}};
    EXPECT_EQ(as_map(account.forward), saved);
    EXPECT_EQ(as_map(account.saved), saved);
    EXPECT_EQ(as_map(account.backward), (Account{{"d_q", kThin}, {"d_k", kThin}, {"d_v", kThin}}));
    EXPECT_EQ(account.peak.count, 8 * kThin + kLogSumExp);
  }
}

TEST(AccountAttention, HalfTheBytesPerElementIsHalfTheMemory) {
  AttentionConfig half = kConfig;
  half.dtype = DType::bf16;
  EXPECT_EQ(account_attention(half, AttentionForm::plain).peak.count * 2, 6'467'616'768);
}

TEST(AccountAttention, HeadsCountLikeBatch) {
  AttentionConfig heads = kConfig;
  heads.batch_size = 2;
  heads.heads = 4;
  EXPECT_EQ(account_attention(heads, AttentionForm::plain).peak.count, 6'467'616'768);
}

TEST(AccountAttention, ThePartsAddUpToTheWhole) {
  for (const AttentionForm form : {AttentionForm::plain, AttentionForm::fused})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool causal : {false, true})
        for (const int64_t seq_len : {1, 16, 100, 4096}) {
          const AttentionMemory account = account_attention({.batch_size = 3,
                                                             .heads = 2,
                                                             .seq_len = seq_len,
                                                             .head_dim = 16,
                                                             .causal = causal,
                                                             .dtype = dtype},
                                                            form);
          EXPECT_EQ(sum(account.saved), account.before_backward.count) << seq_len << causal;
          EXPECT_EQ(sum(account.at_peak), account.peak.count) << seq_len << causal;
          EXPECT_GE(account.peak, account.before_backward);
        }
}

TEST(RecomputeWeights, SavesOnlyInputsAndOutputButKeepsThePeak) {
  const RecomputeEffect effect = recompute_weights(kConfig);
  EXPECT_EQ(effect.before_backward.count, 5 * kThin);
  EXPECT_EQ(effect.peak.count, 6 * kThin + 3 * kSquare);
}

TEST(MemoryAnalysis, StatesBytesSharesGrowthAndWhatFlashChanges) {
  const std::string text = memory_analysis(kConfig, {});
  for (const char* part :
       {"batch 8, heads 1, sequence 8192, width 16, fp32",
        "2.00 GiB is the size of one S x S tensor", "16777216", "2147483648", "4294967296",
        "6467616768", "100.0 %", "naive peak grows as S^2.00", "flash peak grows as S^1.00",
        "weights recomputed in backward", "32.2 MiB"})
    EXPECT_HAS(text, part);
  EXPECT_LACKS(text, "measured by the ledger");
}

TEST(MemoryAnalysis, PutsTheMeasuredPeakBesideThePredictedOne) {
  MemoryFacts measured;
  measured.peak = Bytes{6'467'616'768 / 100 * 101};
  const std::string text = memory_analysis(kConfig, measured);
  EXPECT_HAS(text, "(+1.00 %)");
}

}  // namespace
}  // namespace ridgeline::memory_study_test
