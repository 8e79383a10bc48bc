#include "studies/attention_verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/larger.h"
#include "base/random.h"

namespace ridgeline {
namespace {

constexpr int64_t kSampledHeads = 1;

std::vector<int64_t> all_rows(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

// The first, the last and random rows between.
std::vector<int64_t> sample_rows(int64_t count, NormalRandom& random) {
  std::vector<int64_t> rows = {0, count - 1};
  while (static_cast<int64_t>(rows.size()) < std::min(kSampledRows, count))
    rows.push_back(static_cast<int64_t>(random.next_bits() % static_cast<uint64_t>(count)));
  return rows;
}

struct Comparison {
  const char* name;
  std::vector<double> AttentionRowsResult::*rows;
  enum class Kind { output, log_sum_exp, query_gradient, key_gradient } kind;
  double factor;  // how many times the plain implementation's error is allowed
  std::vector<double> AttentionHead::*multiplied = nullptr;  // with the gradient of the scores
};

// The field's rule: twice the error of a plain implementation in the same dtype, three times for
// gradients.
constexpr std::array kComparisons = {
    Comparison{"output", &AttentionRowsResult::output, Comparison::Kind::output, 2},
    Comparison{"log_sum_exp", &AttentionRowsResult::log_sum_exp, Comparison::Kind::log_sum_exp, 2},
    Comparison{"d_q", &AttentionRowsResult::d_q, Comparison::Kind::query_gradient, 3,
               &AttentionHead::k},
    Comparison{"d_k", &AttentionRowsResult::d_k, Comparison::Kind::key_gradient, 3,
               &AttentionHead::q},
    Comparison{"d_v", &AttentionRowsResult::d_v, Comparison::Kind::key_gradient, 3},
};

bool applies(const Comparison& comparison, const CheckedResults& results) {
  switch (comparison.kind) {
    case Comparison::Kind::output:
      return true;
    case Comparison::Kind::log_sum_exp:
      return results.log_sum_exp;
    case Comparison::Kind::query_gradient:
    case Comparison::Kind::key_gradient:
      return results.gradients;
  }
  return false;
}

struct Extremes {
  double error = 0;        // of what was computed
  double plain_error = 0;  // of a plain implementation
  double largest = 0;      // magnitude of the true values, and of what cancels in them
};

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

double root_mean_square(const std::vector<double>& values) {
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

Verification verify_attention(const AttentionConfig& config, const CheckedResults& results,
                              const HeadReader& read, uint64_t seed, const RangeRunner& run) {
  const int64_t heads = config.batch_size * config.heads;
  const bool whole = config.seq_len <= kWholeTensorLimit;
  NormalRandom random(seed, "verified rows");
  std::vector<int64_t> checked_heads = all_rows(heads);
  if (!whole)
    for (int64_t& head : checked_heads)
      head = static_cast<int64_t>(random.next_bits() % static_cast<uint64_t>(heads));
  if (!whole) checked_heads.resize(static_cast<size_t>(std::min(heads, kSampledHeads)));

  std::array<Extremes, kComparisons.size()> extremes{};
  for (int64_t head : checked_heads) {
    const AttentionHead problem{
        .seq_len = config.seq_len,
        .head_dim = config.head_dim,
        .causal = config.causal,
        .scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim)),
        .q = read("q", head),
        .k = read("k", head),
        .v = read("v", head),
        .d_output = results.gradients ? read("d_output", head) : std::vector<double>()};
    const std::vector<int64_t> queries =
        whole ? all_rows(config.seq_len) : sample_rows(config.seq_len, random);
    const std::vector<int64_t> keys =
        whole ? all_rows(config.seq_len) : sample_rows(config.seq_len, random);
    const AttentionRowsResult exact = attention_rows_fp64(problem, queries, keys, run);
    const AttentionRowsResult plain =
        attention_rows_naive(problem, config.dtype, queries, keys, run);
    for (size_t c = 0; c < kComparisons.size(); ++c) {
      const Comparison& comparison = kComparisons[c];
      if (!applies(comparison, results)) continue;
      const std::vector<double> computed = read(comparison.name, head);
      const bool by_key = comparison.kind == Comparison::Kind::key_gradient;
      const std::vector<int64_t>& rows = by_key ? keys : queries;
      const auto width = static_cast<size_t>(
          comparison.kind == Comparison::Kind::log_sum_exp ? 1 : config.head_dim);
      Extremes& extreme = extremes[c];
      // A rounding of a sum moves its logarithm by an epsilon, however small that is.
      if (comparison.kind == Comparison::Kind::log_sum_exp)
        extreme.largest = std::max(extreme.largest, 1.0);
      // The gradient of a score is a difference, that of a lone one of equals: what is left of it
      // are roundings of its terms, which are as large as those of d_v times a value.
      if (comparison.multiplied)
        extreme.largest =
            std::max(extreme.largest, largest_of(exact.d_v) * root_mean_square(problem.v) *
                                          root_mean_square(problem.*comparison.multiplied));
      for (size_t r = 0; r < rows.size(); ++r)
        for (size_t column = 0; column < width; ++column) {
          const size_t at = r * width + column;
          const double truth = (exact.*comparison.rows)[at];
          const double value = computed.at(static_cast<size_t>(rows[r]) * width + column);
          extreme.error = larger(extreme.error, std::abs(value - truth));
          extreme.plain_error =
              larger(extreme.plain_error, std::abs((plain.*comparison.rows)[at] - truth));
          extreme.largest = std::max(extreme.largest, std::abs(truth));
        }
    }
  }

  Verification verification{
      .checked = true,
      .what = whole ? "whole tensors" : fmt::format("{} rows of one head", kSampledRows),
      .oracle = "fp64",
      .tensors = {}};
  for (size_t c = 0; c < kComparisons.size(); ++c) {
    if (!applies(kComparisons[c], results)) continue;
    // The floor is a few roundings of the largest value, for cases where the plain one is exact by
    // luck.
    const double floor = 4 * info(config.dtype).epsilon * extremes[c].largest + 1e-12;
    verification.tensors.push_back({kComparisons[c].name, extremes[c].error,
                                    kComparisons[c].factor * extremes[c].plain_error + floor});
  }
  return verification;
}

std::string first_wrong_tensor(const Verification& verification) {
  for (const TensorError& tensor : verification.tensors) {
    if (tensor.max_error <= tensor.tolerance) continue;
    if (std::isnan(tensor.max_error)) return fmt::format("{} is not finite", tensor.name);
    return fmt::format("{} is off by {:.3g}, allowed are {:.3g}", tensor.name, tensor.max_error,
                       tensor.tolerance);
  }
  return {};
}

}  // namespace ridgeline
