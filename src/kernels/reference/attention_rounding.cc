#include "kernels/reference/attention_rounding.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/bounded.h"

namespace ridgeline {
namespace {

constexpr double kSingle = info(DType::f32).epsilon;
constexpr double kFunction = 2 * kSingle;  // of an exponential, a logarithm or a quotient

double square(double x) {
  return x * x;
}

}  // namespace

AttentionRounding::AttentionRounding(const AttentionHead& head, DType dtype)
    : scale_(std::abs(head.scale)),
      growth_(sum_rounding(head.head_dim)),
      operand_(dtype == DType::tf32 ? info(dtype).epsilon : 0),
      stored_(is_16_bit(dtype) ? info(dtype).epsilon / 2 : 0),
      q_(rows_of(head.q, head.head_dim)),
      k_(rows_of(head.k, head.head_dim)),
      v_(rows_of(head.v, head.head_dim)),
      d_output_(rows_of(head.d_output, head.head_dim)) {}

AttentionRounding::Rows AttentionRounding::rows_of(const std::vector<double>& values,
                                                   int64_t width) {
  Rows rows;
  for (size_t begin = 0; begin < values.size(); begin += static_cast<size_t>(width)) {
    double squares = 0, largest = 0;
    for (size_t i = begin; i < begin + static_cast<size_t>(width); ++i) {
      squares += square(values[i]);
      largest = std::max(largest, std::abs(values[i]));
    }
    rows.norm.push_back(std::sqrt(squares));
    rows.largest.push_back(largest);
  }
  return rows;
}

double AttentionRounding::product(const Rows& a, int64_t row, double b_norm) const {
  const auto at = static_cast<size_t>(row);
  return (growth_ * a.norm[at] + operand_ * a.largest[at]) * b_norm;
}

double AttentionRounding::score(int64_t query, int64_t key) const {
  return scale_ * product(q_, query, k_.norm[static_cast<size_t>(key)]);
}

double AttentionRounding::weight(const Pair& pair, const Query& of) const {
  return score(pair.query, pair.key) + of.log_sum_exp + kFunction +
         stored(of) * (1 + 2 * std::abs(pair.score));
}

double AttentionRounding::d_weight(const Pair& pair, const Query& of) const {
  return product(d_output_, pair.query, v_.norm[static_cast<size_t>(pair.key)]) +
         stored(of) * std::abs(pair.d_weight);
}

AttentionRounding::Query AttentionRounding::query(int64_t query, const Weights& of) const {
  Query result{.is_lone = of.scores.size() == 1};
  double variance = 0, value_norm = 0;
  for (size_t j = 0; j < of.scores.size(); ++j) {
    variance += square(of.weights[j] * score(query, static_cast<int64_t>(j)));
    value_norm += of.weights[j] * v_.norm[j];
  }
  result.log_sum_exp = std::sqrt(variance) + kFunction;
  if (of.d_weights.empty()) return result;
  // Computed either as the sum over keys, or as the product of the stored output and its gradient.
  variance = square(product(d_output_, query, value_norm)) +
             square(stored(result) * d_output_.largest[static_cast<size_t>(query)] * value_norm) +
             square(result.log_sum_exp * of.gradient_dot);
  for (size_t j = 0; j < of.scores.size(); ++j) {
    const Pair pair{.query = query,
                    .key = static_cast<int64_t>(j),
                    .score = of.scores[j],
                    .weight = of.weights[j],
                    .d_weight = of.d_weights[j]};
    variance += square(pair.weight) *
                (square(d_weight(pair, result)) + square(weight(pair, result) * pair.d_weight));
  }
  result.gradient_dot = std::sqrt(variance);
  return result;
}

double AttentionRounding::d_score_variance(const Pair& pair, const Query& of) const {
  const double relative = weight(pair, of) + stored(of);  // of the weight, then of its rounding
  return square(scale_ * pair.weight) *
         (square(d_weight(pair, of)) + square(relative * (pair.d_weight - pair.gradient_dot)));
}

}  // namespace ridgeline
