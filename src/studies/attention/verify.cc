#include "studies/attention/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/larger.h"
#include "base/random.h"
#include "kernels/reference/attention_rounding.h"

namespace ridgeline {
namespace {

constexpr int64_t kRowsOfOthers = 2;                     // queries compared of other heads
constexpr int64_t kElementsOfOthers = int64_t{1} << 25;  // read of each tensor
constexpr int kProjections = 4;

std::vector<int64_t> all_rows(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

int64_t below(int64_t count, NormalRandom& random) {
  return static_cast<int64_t>(random.next_bits() % static_cast<uint64_t>(count));
}

// The last row, the first one if more than two are wanted, and random ones.
std::vector<int64_t> sample_rows(int64_t count, int64_t wanted, NormalRandom& random) {
  std::vector<int64_t> rows = {count - 1};
  if (wanted > kRowsOfOthers) rows.push_back(0);
  while (static_cast<int64_t>(rows.size()) < std::min(wanted, count))
    rows.push_back(below(count, random));
  return rows;
}

struct ComparedResult {
  const char* name;
  std::vector<double> AttentionRowsResult::*rows;
  enum class Kind { output, log_sum_exp, query_gradient, key_gradient } kind;
  double factor;  // of the plain implementation's error that is allowed
  // Per row, the error that rounding may leave where terms cancel; null: nothing cancels.
  std::vector<double> AttentionRowsResult::*rounding = nullptr;
};

// The usual rule: twice the error of a plain implementation in the same dtype, three times for
// gradients.
constexpr std::array kComparisons = {
    ComparedResult{"output", &AttentionRowsResult::output, ComparedResult::Kind::output, 2},
    ComparedResult{"log_sum_exp", &AttentionRowsResult::log_sum_exp,
                   ComparedResult::Kind::log_sum_exp, 2,
                   &AttentionRowsResult::log_sum_exp_rounding},
    ComparedResult{"d_q", &AttentionRowsResult::d_q, ComparedResult::Kind::query_gradient, 3,
                   &AttentionRowsResult::d_q_rounding},
    ComparedResult{"d_k", &AttentionRowsResult::d_k, ComparedResult::Kind::key_gradient, 3,
                   &AttentionRowsResult::d_k_rounding},
    ComparedResult{"d_v", &AttentionRowsResult::d_v, ComparedResult::Kind::key_gradient, 3},
};

bool applies(const ComparedResult& comparison, const CheckedResults& results) {
  switch (comparison.kind) {
    case ComparedResult::Kind::output:
      return true;
    case ComparedResult::Kind::log_sum_exp:
      return results.log_sum_exp;
    case ComparedResult::Kind::query_gradient:
    case ComparedResult::Kind::key_gradient:
      return results.gradients;
  }
  return false;
}

struct RowError {
  double error = 0;     // the largest of the row
  double rounding = 0;  // allowed where terms cancel
};

struct Errors {
  std::vector<RowError> rows;
  double plain_error = 0;  // of a plain implementation, the largest of all rows
  double largest = 0;      // magnitude of the exact values

  // The row with the largest error relative to its own tolerance.
  TensorError worst(const char* name, double factor, DType stored) const {
    // A floor of a few roundings of the largest value, in case the plain implementation happens to
    // be exact. In 16 bits, only the rounding of the stored result counts.
    const double roundings = is_16_bit(stored) ? 1 : 4;
    const double shared = factor * plain_error + roundings * info(stored).epsilon * largest + 1e-12;
    TensorError worst{name, 0, shared};
    for (const RowError& row : rows)
      worst.tolerance = std::max(worst.tolerance, shared + row.rounding);
    for (const RowError& row : rows) {
      const double tolerance = shared + row.rounding;
      // Worse, or NaN.
      if (!(row.error / tolerance <= worst.max_error / worst.tolerance))
        worst = {name, row.error, tolerance};
      if (std::isnan(row.error)) break;
    }
    return worst;
  }
};

class AttentionComparison {
 public:
  AttentionComparison(const AttentionConfig& config, const CheckedResults& results,
                      const HeadReader& read, const RangeRunner& run)
      : config_(config), results_(results), read_(read), run_(run) {}

  AttentionHead head(int64_t number) const {
    return {.seq_len = config_.seq_len,
            .head_dim = config_.head_dim,
            .causal = config_.causal,
            .scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim)),
            .q = read_("q", number),
            .k = read_("k", number),
            .v = read_("v", number),
            .d_output = results_.gradients ? read_("d_output", number) : std::vector<double>()};
  }

  // Without keys, compares only the results of queries.
  void compare_rows(const AttentionHead& problem, int64_t number,
                    const std::vector<int64_t>& queries, const std::vector<int64_t>& keys);
  // Checks sums over all rows of the gradients: the weights of each query sum to 1, so d_v sums to
  // d_output; and as d_q = dS K and d_k = dS^T Q, (K a) . (d_k b) = (Q b) . (d_q a) for any a and
  // b. Errors of that many rows add up in quadrature.
  void compare_sums(const AttentionHead& problem, int64_t number, NormalRandom& random);

  std::vector<TensorError> tensors() const {
    std::vector<TensorError> all;
    for (size_t c = 0; c < kComparisons.size(); ++c) {
      if (!applies(kComparisons[c], results_)) continue;
      const bool is_single = kComparisons[c].kind == ComparedResult::Kind::log_sum_exp;
      all.push_back(errors_[c].worst(kComparisons[c].name, kComparisons[c].factor,
                                     is_single ? DType::f32 : config_.dtype));
    }
    return all;
  }

 private:
  Errors& errors_of(const char* name) {
    const auto is_it = [&](const ComparedResult& of) { return std::string_view(of.name) == name; };
    return errors_[static_cast<size_t>(
        std::find_if(kComparisons.begin(), kComparisons.end(), is_it) - kComparisons.begin())];
  }

  const AttentionConfig& config_;
  const CheckedResults& results_;
  const HeadReader& read_;
  const RangeRunner& run_;
  double largest_log_sum_exp_ = 0;  // of the rows that were compared
  std::array<Errors, kComparisons.size()> errors_{};
};

void AttentionComparison::compare_rows(const AttentionHead& problem, int64_t number,
                                       const std::vector<int64_t>& queries,
                                       const std::vector<int64_t>& keys) {
  const AttentionRounding rounding(problem, config_.dtype);
  const AttentionRowsResult exact = attention_rows_fp64(problem, queries, keys, run_, &rounding);
  const AttentionRowsResult plain =
      attention_rows_naive(problem, config_.dtype, queries, keys, run_);
  for (double each : exact.log_sum_exp)
    largest_log_sum_exp_ = std::max(largest_log_sum_exp_, std::abs(each));
  for (size_t c = 0; c < kComparisons.size(); ++c) {
    const ComparedResult& comparison = kComparisons[c];
    const bool by_key = comparison.kind == ComparedResult::Kind::key_gradient;
    const std::vector<int64_t>& rows = by_key ? keys : queries;
    if (!applies(comparison, results_) || rows.empty()) continue;
    const std::vector<double> computed = read_(comparison.name, number);
    const auto width = static_cast<size_t>(
        comparison.kind == ComparedResult::Kind::log_sum_exp ? 1 : config_.head_dim);
    Errors& of = errors_[c];
    // Rounding a sum moves its logarithm by an epsilon, however small the logarithm is.
    if (comparison.kind == ComparedResult::Kind::log_sum_exp)
      of.largest = std::max(of.largest, 1.0);
    for (size_t r = 0; r < rows.size(); ++r) {
      RowError row;
      if (comparison.rounding) row.rounding = (exact.*comparison.rounding)[r];
      for (size_t column = 0; column < width; ++column) {
        const size_t at = r * width + column;
        const double truth = (exact.*comparison.rows)[at];
        const double value = computed.at(static_cast<size_t>(rows[r]) * width + column);
        row.error = larger(row.error, std::abs(value - truth));
        of.plain_error = larger(of.plain_error, std::abs((plain.*comparison.rows)[at] - truth));
        of.largest = std::max(of.largest, std::abs(truth));
      }
      of.rows.push_back(row);
    }
  }
}

void AttentionComparison::compare_sums(const AttentionHead& problem, int64_t number,
                                       NormalRandom& random) {
  const auto rows = static_cast<size_t>(config_.seq_len);
  const auto width = static_cast<size_t>(config_.head_dim);
  const std::vector<double> d_q = read_("d_q", number), d_k = read_("d_k", number),
                            d_v = read_("d_v", number);
  // All weights of a query share the error of its log-sum-exp, which is stored in fp32: they sum to
  // 1 up to a few roundings of it.
  const double of_a_query = 4 * info(DType::f32).epsilon * std::max(1.0, largest_log_sum_exp_);
  const double root = std::sqrt(static_cast<double>(rows));
  for (size_t column = 0; column < width; ++column) {
    double difference = 0, sum = 0, squares = 0;
    for (size_t at = column; at < rows * width; at += width) {
      difference += d_v.at(at) - problem.d_output[at];
      sum += problem.d_output[at];
      squares += problem.d_output[at] * problem.d_output[at];
    }
    errors_of("d_v").rows.push_back(
        {.error = std::abs(difference) / root,
         .rounding = of_a_query * (std::sqrt(squares) + std::abs(sum)) / root});
  }

  // The product of a matrix and a vector of signs.
  const auto projected = [&](const std::vector<double>& matrix, const std::vector<double>& signs) {
    std::vector<double> products(rows);
    for (size_t row = 0; row < rows; ++row)
      products[row] =
          std::inner_product(signs.begin(), signs.end(),
                             matrix.begin() + static_cast<std::ptrdiff_t>(row * width), 0.0);
    return products;
  };
  const auto dot = [](const std::vector<double>& x, const std::vector<double>& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  RowError keys;
  for (int i = 0; i < kProjections; ++i) {
    std::vector<double> a(width), b(width);
    for (std::vector<double>* signs : {&a, &b})
      for (double& sign : *signs) sign = random.next_bits() % 2 == 0 ? 1 : -1;
    const std::vector<double> k_a = projected(problem.k, a), q_b = projected(problem.q, b);
    const double difference = dot(k_a, projected(d_k, b)) - dot(q_b, projected(d_q, a));
    // The difference that an error of 1 with a random sign in every element would make.
    const double scale = std::sqrt(static_cast<double>(width)) *
                         (std::sqrt(dot(k_a, k_a)) + std::sqrt(dot(q_b, q_b)));
    keys.error = larger(keys.error, std::abs(difference) / scale);
  }
  errors_of("d_k").rows.push_back(keys);
}

}  // namespace

Verification verify_attention(const AttentionConfig& config, const CheckedResults& results,
                              const HeadReader& read, uint64_t seed, const RangeRunner& run) {
  const int64_t heads = config.batch_size * config.heads;
  AttentionComparison comparison(config, results, read, run);
  Verification verification{.checked = true, .what = "whole tensors", .tensors = {}};
  if (config.seq_len <= kWholeTensorLimit) {
    const std::vector<int64_t> rows = all_rows(config.seq_len);
    for (int64_t head = 0; head < heads; ++head)
      comparison.compare_rows(comparison.head(head), head, rows, rows);
    verification.tensors = comparison.tensors();
    return verification;
  }
  NormalRandom random(seed, "verified rows");
  // The head whose key gradients are compared with the oracle's, which need all queries.
  const int64_t whole = below(heads, random);
  comparison.compare_rows(comparison.head(whole), whole,
                          sample_rows(config.seq_len, kSampledRows, random),
                          sample_rows(config.seq_len, kSampledRows, random));
  // Compares a few queries and the sums of evenly spread heads.
  const int64_t readable = kElementsOfOthers / (config.seq_len * config.head_dim);
  const int64_t sampled_heads = std::clamp<int64_t>(readable, 1, heads);
  for (int64_t i = 0; i < sampled_heads; ++i) {
    const int64_t number = sampled_heads == 1 ? whole : i * (heads - 1) / (sampled_heads - 1);
    const AttentionHead head = comparison.head(number);
    if (number != whole)
      comparison.compare_rows(head, number, sample_rows(config.seq_len, kRowsOfOthers, random), {});
    if (results.gradients) comparison.compare_sums(head, number, random);
  }
  verification.what = fmt::format("{} rows of one head", kSampledRows);
  if (heads > 1)
    verification.what += fmt::format(", {} rows and the sums of {}", kRowsOfOthers, sampled_heads);
  verification.tensors = comparison.tensors();
  return verification;
}

}  // namespace ridgeline
