// The comparison with the oracle must see a single wrong element in any of the four results.
#include "studies/attention_verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/random.h"
#include "kernels/cpu/simd_kernels.h"

namespace ridgeline {
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
      append(results["d_q"], exact.d_q);
      append(results["d_k"], exact.d_k);
      append(results["d_v"], exact.d_v);
    }
    for (const auto& [name, values] : results) store(name, values);
  }

  Verification verify(uint64_t seed = 42) const { return verify_as(config_, seed); }
  Verification verify_as(const AttentionConfig& config, uint64_t seed = 42) const {
    const auto tensor = [this](const char* name) { return view(name); };
    return verify_attention(config, tensor, seed, run_serially);
  }

  void add(const std::string& name, int64_t head, int64_t row, int64_t column, float amount) {
    const size_t at =
        static_cast<size_t>((head * config_.seq_len + row) * config_.head_dim + column);
    char* place = &bytes_.at(name).at(at * static_cast<size_t>(size()));
    float value = 0;
    kernels().load(config_.dtype, place, &value, 1);
    value += amount;
    kernels().store(config_.dtype, &value, place, 1);
  }

  // The same tensor laid out with its rows as columns.
  void transpose_in_memory(const std::string& name) {
    const std::vector<char> before = bytes_.at(name);
    const auto bytes = static_cast<size_t>(size());
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
  static const SimdKernels& kernels() { return simd_kernels(Isa::portable); }
  int64_t heads() const { return config_.batch_size * config_.heads; }
  int64_t elements() const { return heads() * config_.seq_len * config_.head_dim; }
  int size() const { return info(config_.dtype).size; }

  static void append(std::vector<float>& to, const std::vector<double>& values) {
    for (double value : values) to.push_back(static_cast<float>(value));
  }

  void store(const std::string& name, const std::vector<float>& values) {
    std::vector<char>& bytes = bytes_[name];
    bytes.resize(values.size() * static_cast<size_t>(size()));
    kernels().store(config_.dtype, values.data(), bytes.data(), elements());
  }

  std::vector<double> read(const std::string& name, int64_t head) const {
    const int64_t count = config_.seq_len * config_.head_dim;
    std::vector<float> values(static_cast<size_t>(count));
    kernels().load(config_.dtype, bytes_.at(name).data() + head * count * size(), values.data(),
                   count);
    return {values.begin(), values.end()};
  }

  TensorView view(const std::string& name) const {
    const int64_t rows = config_.seq_len, columns = config_.head_dim;
    Strides strides = {rows * columns, columns, 1};
    if (name == transposed_) strides = {rows * columns, 1, rows};
    return {const_cast<char*>(bytes_.at(name).data()),
            config_.dtype,
            {heads(), rows, columns},
            strides};
  }

  AttentionConfig config_;
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

class WrongElement : public testing::TestWithParam<Case> {};

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
                         testing::Values(Case{"output", kShort}, Case{"d_q", kShort},
                                         Case{"d_k", kShort}, Case{"d_v", kShort},
                                         Case{"output", kLong}, Case{"d_q", kLong},
                                         Case{"d_k", kLong}, Case{"d_v", kLong}),
                         [](const testing::TestParamInfo<Case>& c) {
                           const bool whole = c.param.config.seq_len <= kWholeTensorLimit;
                           return c.param.tensor + (whole ? "_whole" : "_sampled");
                         });

TEST(VerifyAttention, ComparesEveryElementOfShortProblems) {
  Problem problem(kShort);
  for (const std::string tensor : {"output", "d_q", "d_k", "d_v"})
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
  EXPECT_EQ(sampled.tensors.size(), 4u);
}

TEST(VerifyAttention, RowsBetweenTheFirstAndTheLastAreSampledToo) {
  for (const std::string tensor : {"output", "d_k"}) {
    Problem problem(kLong);
    for (int64_t row = 1; row + 1 < kLong.seq_len; ++row) problem.add(tensor, 0, row, 0, 0.01f);
    EXPECT_TRUE(first_wrong_tensor(problem.verify()).starts_with(tensor));
  }
}

TEST(VerifyAttention, RoundingToTheDtypeIsWithinTolerance) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
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
  for (size_t i = 0; i < 4; ++i) {
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

TEST(VerifyAttention, TensorsAreReadThroughTheirStrides) {
  Problem problem(kShort);
  problem.transpose_in_memory("d_k");
  EXPECT_EQ(first_wrong_tensor(problem.verify()), "");
}

}  // namespace
}  // namespace ridgeline
