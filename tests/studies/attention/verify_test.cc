// The comparison with the oracle must see a single wrong element in any of the five results.
#include "studies/attention/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/random.h"
#include "kernels/host_values.h"
#include "runtime/cpu_device.h"
#include "studies/host_tensors.h"
#include "studies/row.h"

namespace ridgeline::attention_study_test {
namespace {

void run_serially(int64_t count, const std::function<void(int64_t, int64_t)>& body) {
  body(0, count);
}

// The inputs of an attention problem and its true results, stored in the dtype of the config.
class Problem {
 public:
  explicit Problem(const AttentionConfig& config) : config_(config) {
    for (const char* name : {"q", "k", "v", "d_output"}) {
      NormalRandom random(42, name);
      std::vector<float> values(static_cast<size_t>(elements()));
      for (float& value : values) value = static_cast<float>(random.next());
      store(name, values);
    }
    std::vector<int64_t> rows(static_cast<size_t>(config.seq_len));
    std::iota(rows.begin(), rows.end(), int64_t{0});
    std::map<std::string, std::vector<float>> results;
    for (int64_t head = 0; head < heads(); ++head) {
      const AttentionHead problem{.seq_len = config.seq_len,
                                  .head_dim = config.head_dim,
                                  .causal = config.causal,
                                  .scale = 1 / std::sqrt(static_cast<double>(config.head_dim)),
                                  .q = read("q", head),
                                  .k = read("k", head),
                                  .v = read("v", head),
                                  .d_output = read("d_output", head)};
      const AttentionRowsResult exact = attention_rows_fp64(problem, rows, rows, run_serially);
      append(results["output"], exact.output);
      append(results["log_sum_exp"], exact.log_sum_exp);
      append(results["d_q"], exact.d_q);
      append(results["d_k"], exact.d_k);
      append(results["d_v"], exact.d_v);
    }
    for (const auto& [name, values] : results) store(name, values);
  }

  Verification verify(uint64_t seed = 42) const { return verify_as(config_, seed); }
  Verification verify_as(const AttentionConfig& config, uint64_t seed = 42) const {
    const HeadReader reader = [this](const char* name, int64_t head) { return read(name, head); };
    return verify_attention(config, {.log_sum_exp = true}, reader, seed, run_serially);
  }

  Verification verify_forward() const {
    const HeadReader reader = [this](const char* name, int64_t head) {
      EXPECT_NE(name[0], 'd') << name;
      return read(name, head);
    };
    return verify_attention(config_, {.gradients = false}, reader, 42, run_serially);
  }

  void add(const std::string& name, int64_t head, int64_t row, int64_t column, float amount) {
    const int64_t at = (head * config_.seq_len + row) * width(name) + column % width(name);
    void* data = bytes_.at(name).data();
    store_one(dtype(name), load_one(dtype(name), data, at) + amount, data, at);
  }

  void exchange_heads(const std::string& name, int64_t one, int64_t other) {
    const auto bytes = static_cast<std::ptrdiff_t>(bytes_.at(name).size()) / heads();
    const auto begin = bytes_.at(name).begin();
    std::swap_ranges(begin + one * bytes, begin + (one + 1) * bytes, begin + other * bytes);
  }

  // The same tensor laid out with its rows as columns.
  void transpose_in_memory(const std::string& name) {
    const std::vector<char> before = bytes_.at(name);
    const auto bytes = static_cast<size_t>(info(dtype(name)).size);
    const int64_t rows = config_.seq_len, columns = config_.head_dim;
    for (int64_t head = 0; head < heads(); ++head)
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < columns; ++column) {
          const auto from = static_cast<size_t>((head * rows + row) * columns + column) * bytes;
          const auto to = static_cast<size_t>((head * columns + column) * rows + row) * bytes;
          std::copy_n(&before[from], bytes, &bytes_.at(name)[to]);
        }
    transposed_ = name;
  }

 private:
  int64_t heads() const { return config_.batch_size * config_.heads; }
  int64_t elements() const { return heads() * config_.seq_len * config_.head_dim; }
  static bool is_log_sum_exp(const std::string& name) { return name == "log_sum_exp"; }
  int64_t width(const std::string& name) const {
    return is_log_sum_exp(name) ? 1 : config_.head_dim;
  }
  DType dtype(const std::string& name) const {
    return is_log_sum_exp(name) ? DType::f32 : config_.dtype;
  }

  static void append(std::vector<float>& to, const std::vector<double>& values) {
    for (double value : values) to.push_back(static_cast<float>(value));
  }

  void store(const std::string& name, const std::vector<float>& values) {
    std::vector<char>& bytes = bytes_[name];
    bytes.resize(values.size() * static_cast<size_t>(info(dtype(name)).size));
    for (size_t i = 0; i < values.size(); ++i)
      store_one(dtype(name), values[i], bytes.data(), static_cast<int64_t>(i));
  }

  std::vector<double> read(const std::string& name, int64_t head) const {
    return read_values(device_, sub_tensor(view(name), head));
  }

  TensorView view(const std::string& name) const {
    const int64_t rows = config_.seq_len, columns = width(name);
    Strides strides = {rows * columns, columns, 1};
    if (name == transposed_) strides = {rows * columns, 1, rows};
    return {
        const_cast<char*>(bytes_.at(name).data()), dtype(name), {heads(), rows, columns}, strides};
  }

  AttentionConfig config_;
  CpuDevice device_{{.threads = 1}};
  std::map<std::string, std::vector<char>> bytes_;
  std::string transposed_;
};

constexpr AttentionConfig kShort{.batch_size = 2, .heads = 2, .seq_len = 20, .head_dim = 6};
constexpr AttentionConfig kLong{
    .batch_size = 1, .heads = 1, .seq_len = kWholeTensorLimit + 2, .head_dim = 2};

struct Case {
  std::string tensor;
  AttentionConfig config;
};

class WrongElement : public ::testing::TestWithParam<Case> {};

// Long problems are sampled; the first and the last row are always among the sampled ones.
TEST_P(WrongElement, IsSeenWhereverItIsChecked) {
  const auto& [tensor, config] = GetParam();
  Problem problem(config);
  ASSERT_EQ(first_wrong_tensor(problem.verify()), "");
  const int64_t last_head = config.batch_size * config.heads - 1;
  for (int64_t row : {int64_t{0}, config.seq_len - 1}) {
    problem.add(tensor, last_head, row, config.head_dim - 1, 0.01f);
    const std::string wrong = first_wrong_tensor(problem.verify());
    EXPECT_TRUE(wrong.starts_with(tensor + " is off by 0.01")) << wrong;
    problem.add(tensor, last_head, row, config.head_dim - 1, -0.01f);
  }
}

TEST_P(WrongElement, IsSeenWhenItIsNotANumber) {
  const auto& [tensor, config] = GetParam();
  Problem problem(config);
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    problem.add(tensor, 0, 0, 0, value);
    EXPECT_TRUE(first_wrong_tensor(problem.verify()).starts_with(tensor)) << value;
  }
}

INSTANTIATE_TEST_SUITE_P(Attention, WrongElement,
                         ::testing::Values(Case{"output", kShort}, Case{"log_sum_exp", kShort},
                                           Case{"log_sum_exp", kLong}, Case{"d_q", kShort},
                                           Case{"d_k", kShort}, Case{"d_v", kShort},
                                           Case{"output", kLong}, Case{"d_q", kLong},
                                           Case{"d_k", kLong}, Case{"d_v", kLong}),
                         [](const ::testing::TestParamInfo<Case>& c) {
                           const bool whole = c.param.config.seq_len <= kWholeTensorLimit;
                           return c.param.tensor + (whole ? "_whole" : "_sampled");
                         });

// With one key the true d_q and d_k are zero; what is more than a rounding of their terms is wrong.
TEST(VerifyAttention, WhatVanishesMayRoundAndNothingElse) {
  const AttentionConfig lone{.batch_size = 3, .heads = 2, .seq_len = 1, .head_dim = 6};
  for (const std::string tensor : {"d_q", "d_k"}) {
    Problem problem(lone);
    problem.add(tensor, 5, 0, 2, 1e-7f);
    EXPECT_EQ(first_wrong_tensor(problem.verify()), "");
    problem.add(tensor, 5, 0, 2, 1e-5f);
    EXPECT_TRUE(first_wrong_tensor(problem.verify()).starts_with(tensor));
  }
}

// It grows with the width of a head, and no faster than that needs.
TEST(VerifyAttention, WhatCancellationLeavesIsAllowedAtAnyWidth) {
  double before = 0;
  for (const int64_t head_dim : {16, 64, 128, 256}) {
    const AttentionConfig lone{.batch_size = 4, .heads = 4, .seq_len = 1, .head_dim = head_dim};
    const Verification found = Problem(lone).verify();
    for (const TensorError& tensor : found.tensors) {
      if (tensor.name != "d_q") continue;
      EXPECT_GT(tensor.tolerance, 1.2 * before) << head_dim;
      EXPECT_LT(tensor.tolerance, 1e-4) << head_dim;
      before = tensor.tolerance;
    }
  }
}

TEST(VerifyAttention, ComparesEveryElementOfShortProblems) {
  Problem problem(kShort);
  for (const std::string tensor : {"output", "log_sum_exp", "d_q", "d_k", "d_v"})
    for (int64_t head = 0; head < 4; ++head)
      for (int64_t row = 0; row < kShort.seq_len; row += 3)
        for (int64_t column = 0; column < kShort.head_dim; ++column) {
          problem.add(tensor, head, row, column, 0.01f);
          EXPECT_NE(first_wrong_tensor(problem.verify()), "")
              << tensor << ' ' << head << ' ' << row << ' ' << column;
          problem.add(tensor, head, row, column, -0.01f);
        }
}

TEST(VerifyAttention, SaysHowMuchWasCompared) {
  EXPECT_EQ(Problem(kShort).verify().what, "whole tensors");
  const Verification sampled = Problem(kLong).verify();
  EXPECT_EQ(sampled.what, "24 rows of one head");
  EXPECT_TRUE(sampled.checked);
  EXPECT_EQ(sampled.tensors.size(), 5u);
}

TEST(VerifyAttention, RowsBetweenTheFirstAndTheLastAreSampledToo) {
  for (const std::string tensor : {"output", "d_k"}) {
    Problem problem(kLong);
    for (int64_t row = 1; row + 1 < kLong.seq_len; ++row) problem.add(tensor, 0, row, 0, 0.01f);
    EXPECT_TRUE(first_wrong_tensor(problem.verify()).starts_with(tensor));
  }
}

// Only one head's rows are computed over all of the other side; the others are not left out.
TEST(VerifyAttention, OtherHeadsOfLongProblemsAreLookedAtToo) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    AttentionConfig config = kLong;
    config.heads = 3;
    config.causal = dtype == DType::bf16;
    config.dtype = dtype;
    Problem problem(config);
    ASSERT_EQ(first_wrong_tensor(problem.verify()), "") << info(dtype).name;
    EXPECT_EQ(problem.verify().what, "24 rows of one head, 2 rows and the sums of 3");
    for (const std::string tensor : {"output", "log_sum_exp", "d_q", "d_k", "d_v"}) {
      problem.exchange_heads(tensor, 1, 2);
      // The sums of d_k and d_q are compared with each other.
      const std::string wrong = first_wrong_tensor(problem.verify());
      EXPECT_TRUE(wrong.starts_with(tensor) || wrong.starts_with("d_k")) << tensor << ' ' << wrong;
      problem.exchange_heads(tensor, 1, 2);
    }
  }
}

TEST(VerifyAttention, ATileThatOneHeadOfALongProblemLacksIsSeen) {
  AttentionConfig config = kLong;
  config.heads = 3;
  Problem problem(config);
  const auto move_tile = [&](const std::string& tensor, int64_t head, float by) {
    for (int64_t row = 1000; row < 1064; ++row)
      for (int64_t column = 0; column < config.head_dim; ++column)
        problem.add(tensor, head, row, column, row % 3 == 0 ? 4 * by : -by);
  };
  for (const std::string tensor : {"d_k", "d_v"})
    for (int64_t head = 0; head < 3; ++head) {
      move_tile(tensor, head, 0.005f);
      const std::string wrong = first_wrong_tensor(problem.verify());
      EXPECT_TRUE(wrong.starts_with(tensor)) << tensor << ' ' << head << ' ' << wrong;
      move_tile(tensor, head, -0.005f);
    }
}

TEST(VerifyAttention, RoundingToTheDtypeIsWithinTolerance) {
  for (const DType dtype : {DType::f32, DType::tf32, DType::bf16, DType::f16})
    for (const bool causal : {false, true}) {
      AttentionConfig config = kShort;
      config.dtype = dtype;
      config.causal = causal;
      EXPECT_EQ(first_wrong_tensor(Problem(config).verify()), "") << info(dtype).name << causal;
    }
}

TEST(VerifyAttention, TheToleranceFollowsTheDtype) {
  AttentionConfig half = kShort;
  half.dtype = DType::bf16;
  const Verification single = Problem(kShort).verify(), rough = Problem(half).verify();
  for (size_t i = 0; i < single.tensors.size(); ++i) {
    EXPECT_LT(single.tensors[i].tolerance, 1e-5) << single.tensors[i].name;
    EXPECT_GT(rough.tensors[i].tolerance, 1e-3) << rough.tensors[i].name;
    EXPECT_LT(rough.tensors[i].tolerance, 0.5) << rough.tensors[i].name;
  }
}

TEST(VerifyAttention, ResultsWithoutTheMaskAreWrongForACausalProblem) {
  AttentionConfig causal = kShort;
  causal.causal = true;
  EXPECT_TRUE(first_wrong_tensor(Problem(kShort).verify_as(causal)).starts_with("output"));
}

// What rounds its operands to ten bits is no fp32, and is told so.
TEST(VerifyAttention, ATf32ToleranceIsThatOfTenBits) {
  AttentionConfig tf32 = kShort;
  tf32.dtype = DType::tf32;
  const Verification single = Problem(kShort).verify(), rounded = Problem(tf32).verify();
  for (size_t i = 0; i < single.tensors.size(); ++i) {
    EXPECT_GT(rounded.tensors[i].tolerance, 100 * single.tensors[i].tolerance);
    EXPECT_LT(rounded.tensors[i].tolerance, 0.1);
  }
}

TEST(VerifyAttention, ForwardAloneNeedsNoGradients) {
  const Problem problem(kShort);
  const Verification forward = problem.verify_forward();
  ASSERT_EQ(forward.tensors.size(), 1u);
  EXPECT_EQ(forward.tensors[0].name, "output");
  EXPECT_EQ(first_wrong_tensor(forward), "");
}

TEST(VerifyAttention, TensorsAreReadThroughTheirStrides) {
  Problem problem(kShort);
  problem.transpose_in_memory("d_k");
  EXPECT_EQ(first_wrong_tensor(problem.verify()), "");
}

}  // namespace
}  // namespace ridgeline::attention_study_test
