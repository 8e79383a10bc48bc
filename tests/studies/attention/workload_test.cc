#include "studies/attention/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "measure/test_support.h"

namespace ridgeline::attention_study_test {
namespace {

std::vector<std::string> labels(const std::vector<AttentionWorkload>& workloads) {
  std::vector<std::string> texts;
  for (const AttentionWorkload& workload : workloads) texts.push_back(label(workload));
  return texts;
}

TEST(ExpandMatrix, EveryCombinationIsOneRow) {
  const std::vector<std::string> rows = labels(expand_matrix({.batch_sizes = {1, 2},
                                                              .head_dims = {8, 16, 32},
                                                              .seq_lens = {64, 128},
                                                              .heads = {1, 4},
                                                              .dtypes = {"fp32", "bf16"},
                                                              .implementations = {"naive"}}));
  EXPECT_EQ(rows.size(), 48u);
  EXPECT_EQ(std::set<std::string>(rows.begin(), rows.end()).size(), 48u);
}

TEST(ExpandMatrix, GoesByDtypeThenWidthThenLengthThenImplementation) {
  EXPECT_EQ(
      labels(expand_matrix({.batch_sizes = {1},
                            .head_dims = {8, 16},
                            .seq_lens = {64, 128},
                            .dtypes = {"fp32"},
                            .implementations = {"naive", "flash"}})),
      (std::vector<std::string>{"naive S=64 d=8 batch=1 fp32", "flash S=64 d=8 batch=1 fp32",
                                "naive S=128 d=8 batch=1 fp32", "flash S=128 d=8 batch=1 fp32",
                                "naive S=64 d=16 batch=1 fp32", "flash S=64 d=16 batch=1 fp32",
                                "naive S=128 d=16 batch=1 fp32", "flash S=128 d=16 batch=1 fp32"}));
}

TEST(ExpandMatrix, CarriesMaskAndBackwardAlgorithmIntoEveryRow) {
  for (const AttentionWorkload& workload :
       expand_matrix({.causal = true, .backward = {BackwardAlgorithm::two_pass}})) {
    EXPECT_TRUE(workload.config.causal);
    EXPECT_EQ(workload.config.backward, BackwardAlgorithm::two_pass);
  }
}

TEST(ExpandMatrix, SeveralBackwardAlgorithmsMakeRowsWhereThereIsAChoice) {
  EXPECT_EQ(labels(expand_matrix(
                {.batch_sizes = {1},
                 .head_dims = {8},
                 .seq_lens = {64},
                 .implementations = {"naive", "flash", "torch.sdpa"},
                 .backward = {BackwardAlgorithm::single_pass, BackwardAlgorithm::two_pass}})),
            (std::vector<std::string>{"naive S=64 d=8 batch=1 fp32", "flash S=64 d=8 batch=1 fp32",
                                      "flash S=64 d=8 batch=1 fp32 two-pass",
                                      "torch.sdpa S=64 d=8 batch=1 fp32"}));
}

TEST(ExpandMatrix, RefusesNamesItDoesNotKnow) {
  EXPECT_ERROR(expand_matrix({.implementations = {"naive", "flush"}}), ErrorKind::usage, "'flush'");
  EXPECT_ERROR(expand_matrix({.dtypes = {"fp7"}}), ErrorKind::usage, "'fp7'");
}

TEST(AttentionPreset, Cs336IsTheGridOfTheAssignment) {
  const AttentionMatrix matrix = find_attention_preset("cs336").matrices.front();
  EXPECT_EQ(matrix.batch_sizes, (std::vector<int64_t>{8}));
  EXPECT_EQ(matrix.head_dims, (std::vector<int64_t>{16, 32, 64, 128}));
  EXPECT_EQ(matrix.seq_lens, (std::vector<int64_t>{256, 1024, 4096, 8192, 16384}));
  EXPECT_EQ(matrix.heads, (std::vector<int64_t>{1}));
  EXPECT_EQ(matrix.dtypes, (std::vector<std::string>{"fp32"}));
  EXPECT_EQ(matrix.implementations, (std::vector<std::string>{"naive", "compiled", "flash"}));
  EXPECT_FALSE(matrix.causal);
}

TEST(AttentionPreset, FlashIsCausalFrom128To65536InTwoDtypes) {
  const AttentionMatrix matrix = find_attention_preset("flash").matrices.front();
  EXPECT_EQ(matrix.batch_sizes, (std::vector<int64_t>{1}));
  EXPECT_EQ(matrix.head_dims, (std::vector<int64_t>{16, 32, 64, 128}));
  EXPECT_EQ(matrix.seq_lens,
            (std::vector<int64_t>{128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}));
  EXPECT_EQ(matrix.dtypes, (std::vector<std::string>{"bf16", "fp32"}));
  EXPECT_TRUE(matrix.causal);
}

TEST(AttentionPreset, LeaderboardIsOneLongProblemOfSixteenHeads) {
  const AttentionMatrix matrix = find_attention_preset("leaderboard").matrices.front();
  EXPECT_EQ(labels(expand_matrix(matrix)),
            (std::vector<std::string>{"naive S=16384 d=64 batch=1 heads=16 bf16 causal",
                                      "compiled S=16384 d=64 batch=1 heads=16 bf16 causal",
                                      "flash S=16384 d=64 batch=1 heads=16 bf16 causal"}));
}

TEST(AttentionPreset, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  EXPECT_ERROR(find_attention_preset("cs337"), ErrorKind::usage, "cs336, flash, leaderboard");
}

TEST(AttentionImplementations, AreFoundByTheirNames) {
  ASSERT_FALSE(attention_implementations().empty());
  for (const AttentionImplementation& implementation : attention_implementations())
    EXPECT_EQ(&find_attention_implementation(implementation.name), &implementation);
  EXPECT_EQ(find_attention_implementation("naive").form, AttentionForm::plain);
  EXPECT_EQ(find_attention_implementation("flash").form, AttentionForm::fused);
  EXPECT_ERROR(find_attention_implementation("flush"), ErrorKind::usage,
               "naive, fused, compiled, flash");
}

TEST(BackwardAlgorithm, NamesAreReadBack) {
  for (const auto algorithm : {BackwardAlgorithm::two_pass, BackwardAlgorithm::single_pass})
    EXPECT_EQ(parse_backward_algorithm(name(algorithm)), algorithm);
  EXPECT_ERROR(parse_backward_algorithm("no-pass"), ErrorKind::usage, "single-pass, two-pass");
}

TEST(BackwardAlgorithm, ADeterministicDeviceTakesTwoPassesAndRefusesOne) {
  for (const bool deterministic : {false, true}) {
    const DeviceFacts facts{.kind = "cuda", .isa = "sm_90a", .deterministic = deterministic};
    EXPECT_EQ(backward_algorithm("two-pass", facts), BackwardAlgorithm::two_pass);
    EXPECT_EQ(backward_algorithm("", facts),
              deterministic ? BackwardAlgorithm::two_pass : BackwardAlgorithm::single_pass);
    if (deterministic) {
      EXPECT_ERROR(backward_algorithm("single-pass", facts), ErrorKind::usage, "--deterministic");
    } else {
      EXPECT_EQ(backward_algorithm("single-pass", facts), BackwardAlgorithm::single_pass);
    }
  }
}

}  // namespace
}  // namespace ridgeline::attention_study_test
