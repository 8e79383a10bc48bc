#include "kernels/reference/attention_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/float16.h"
#include "kernels/reference/attention_rounding.h"

namespace ridgeline {
namespace {

// Compiled for several instruction sets, one of which is chosen at load time; the sanitizers cannot
// run the resolver.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define RIDGELINE_CLONES
#else
#define RIDGELINE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

constexpr int kLanes = 16;  // independent partial sums: enough to fill any vector unit

template <class Real>
[[gnu::always_inline]] inline Real dot_body(const Real* a, const Real* b, int64_t n) {
  Real partial[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) partial[lane] += a[i + lane] * b[i + lane];
  Real total = 0;
  for (; i < n; ++i) total += a[i] * b[i];
  for (Real part : partial) total += part;
  return total;
}

template <class Real>
[[gnu::always_inline]] inline void add_scaled_body(Real* to, Real factor, const Real* from,
                                                   int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

RIDGELINE_CLONES double dot(const double* a, const double* b, int64_t n) {
  return dot_body(a, b, n);
}
RIDGELINE_CLONES float dot(const float* a, const float* b, int64_t n) {
  return dot_body(a, b, n);
}
RIDGELINE_CLONES void add_scaled(double* to, double factor, const double* from, int64_t n) {
  add_scaled_body(to, factor, from, n);
}
RIDGELINE_CLONES void add_scaled(float* to, float factor, const float* from, int64_t n) {
  add_scaled_body(to, factor, from, n);
}

struct Exact {
  using Real = double;
  double operator()(double value) const { return value; }
  double operand(double value) const { return value; }
};

struct Rounded {
  using Real = float;
  DType dtype;
  float operator()(float value) const {
    if (dtype == DType::bf16) return bf16_to_float(float_to_bf16(value));
    if (dtype == DType::f16) return f16_to_float(float_to_f16(value));
    return value;
  }
  // The value as an operand of a product.
  float operand(float value) const { return dtype == DType::tf32 ? float_to_tf32(value) : value; }
};

// One head in the arithmetic of `Rounding`. Every tensor that a graph of single ops would store
// passes through `round_`, every operand of a product through `round_.operand`.
template <class Rounding>
class Head {
 public:
  using Real = typename Rounding::Real;

  // `rounding`: null, or for the exact results.
  Head(const AttentionHead& head, Rounding round, const RangeRunner& run,
       const AttentionRounding* rounding = nullptr)
      : head_(head),
        round_(round),
        run_(run),
        rounding_(rounding),
        q_(operands(head.q)),
        k_(operands(head.k)),
        v_(operands(head.v)),
        d_output_(operands(head.d_output)) {}

  AttentionRowsResult rows(std::span<const int64_t> queries, std::span<const int64_t> keys) {
    AttentionRowsResult result;
    const auto size = [&](std::span<const int64_t> rows) {
      return rows.size() * static_cast<size_t>(width());
    };
    result.output.resize(size(queries));
    result.log_sum_exp.resize(queries.size());
    result.d_q.resize(backward() ? size(queries) : 0);
    if (!backward()) keys = {};
    result.d_k.resize(size(keys));
    result.d_v.resize(size(keys));
    if (rounding_ != nullptr) {
      result.log_sum_exp_rounding.resize(queries.size());
      result.d_q_rounding.resize(backward() ? queries.size() : 0);
      result.d_k_rounding.resize(keys.size());
    }
    run_(static_cast<int64_t>(queries.size()), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) query_row(queries, static_cast<size_t>(i), result);
    });
    if (keys.empty()) return result;
    summarize_queries();
    run_(static_cast<int64_t>(keys.size()), [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) key_row(keys, static_cast<size_t>(j), result);
    });
    return result;
  }

 private:
  struct Summary {
    Real largest, total, gradient_dot;  // of a query's softmax and its gradient
    AttentionRounding::Query rounding = {};
  };
  struct QueryTerms {  // over the keys that a query sees
    std::vector<Real> scores, weights, d_weights;
  };

  std::vector<Real> operands(const std::vector<double>& values) const {
    std::vector<Real> rounded(values.begin(), values.end());
    for (Real& value : rounded) value = round_.operand(value);
    return rounded;
  }

  bool backward() const { return !head_.d_output.empty(); }
  int64_t width() const { return head_.head_dim; }
  int64_t visible_keys(int64_t query) const { return head_.causal ? query + 1 : head_.seq_len; }
  const Real* row_of(const std::vector<Real>& matrix, int64_t index) const {
    return &matrix[static_cast<size_t>(index * width())];
  }

  Real scaled_score(int64_t query, int64_t key) const {
    const Real score = round_(dot(row_of(q_, query), row_of(k_, key), width()));
    return round_(score * static_cast<Real>(head_.scale));
  }
  Real d_weight(int64_t query, int64_t key) const {
    return round_(dot(row_of(d_output_, query), row_of(v_, key), width()));
  }
  Real weight(Real score, const Summary& summary) const {
    return round_(std::exp(score - summary.largest) / summary.total);
  }
  Real d_score(Real weight, Real gradient, const Summary& summary) const {
    return round_(round_(weight * (gradient - summary.gradient_dot)) *
                  static_cast<Real>(head_.scale));
  }

  // Computes a query's scores, weights and their gradients, and returns the sums of its softmax.
  Summary summarize(int64_t query, QueryTerms& of) const {
    const auto keys = static_cast<size_t>(visible_keys(query));
    of.scores.resize(keys);
    of.weights.resize(keys);
    of.d_weights.resize(backward() ? keys : 0);
    Summary summary{-std::numeric_limits<Real>::infinity(), 0, 0};
    for (size_t j = 0; j < keys; ++j) {
      of.scores[j] = scaled_score(query, static_cast<int64_t>(j));
      if (backward()) of.d_weights[j] = d_weight(query, static_cast<int64_t>(j));
      summary.largest = std::max(summary.largest, of.scores[j]);
    }
    for (Real score : of.scores) summary.total += std::exp(score - summary.largest);
    for (size_t j = 0; j < keys; ++j) {
      of.weights[j] = weight(of.scores[j], summary);
      if (backward()) summary.gradient_dot += of.weights[j] * of.d_weights[j];
    }
    if constexpr (std::is_same_v<Rounding, Exact>)
      if (rounding_ != nullptr)
        summary.rounding =
            rounding_->query(query, {of.scores, of.weights, of.d_weights, summary.gradient_dot});
    return summary;
  }

  void query_row(std::span<const int64_t> queries, size_t row, AttentionRowsResult& result) const {
    const int64_t query = queries[row];
    QueryTerms of;
    const Summary summary = summarize(query, of);
    result.log_sum_exp[row] = summary.largest + std::log(summary.total);
    const auto d = static_cast<size_t>(width());
    std::vector<Real> out(d), gradient(d);
    for (size_t j = 0; j < of.scores.size(); ++j) {
      const auto key = static_cast<int64_t>(j);
      add_scaled(out.data(), round_.operand(of.weights[j]), row_of(v_, key), width());
      if (backward())
        add_scaled(gradient.data(),
                   round_.operand(d_score(of.weights[j], of.d_weights[j], summary)),
                   row_of(k_, key), width());
    }
    for (size_t c = 0; c < d; ++c) {
      result.output[row * d + c] = round_(out[c]);
      if (backward()) result.d_q[row * d + c] = round_(gradient[c]);
    }
    if (rounding_ == nullptr) return;
    result.log_sum_exp_rounding[row] = summary.rounding.log_sum_exp;
    if (backward()) result.d_q_rounding[row] = d_q_rounding(query, of, summary);
  }

  // The keys share the error of gradient_dot: it moves d_q along their mean.
  double d_q_rounding(int64_t query, const QueryTerms& of, const Summary& summary) const {
    double variance = 0;
    std::vector<Real> mean_key(static_cast<size_t>(width()));
    for (size_t j = 0; j < of.scores.size(); ++j) {
      const auto key = static_cast<int64_t>(j);
      add_scaled(mean_key.data(), of.weights[j], row_of(k_, key), width());
      const double largest = rounding_->largest_key(key);
      variance += largest * largest *
                  rounding_->d_score_variance({.query = query,
                                               .key = key,
                                               .score = of.scores[j],
                                               .weight = of.weights[j],
                                               .d_weight = of.d_weights[j],
                                               .gradient_dot = summary.gradient_dot},
                                              summary.rounding);
    }
    double largest = 0;
    for (Real value : mean_key) largest = std::max(largest, std::abs(static_cast<double>(value)));
    const double shared = head_.scale * summary.rounding.gradient_dot * largest;
    return std::sqrt(variance + shared * shared);
  }

  void summarize_queries() {
    summaries_.resize(static_cast<size_t>(head_.seq_len));
    run_(head_.seq_len, [&](int64_t begin, int64_t end) {
      QueryTerms of;
      for (int64_t i = begin; i < end; ++i) summaries_[static_cast<size_t>(i)] = summarize(i, of);
    });
  }

  void key_row(std::span<const int64_t> rows, size_t row, AttentionRowsResult& result) const {
    const int64_t key = rows[row];
    const auto d = static_cast<size_t>(width());
    std::vector<Real> keys(d), values(d);
    double variance = 0;
    for (int64_t i = head_.causal ? key : 0; i < head_.seq_len; ++i) {
      const Summary& summary = summaries_[static_cast<size_t>(i)];
      const Real score = scaled_score(i, key), gradient = d_weight(i, key);
      const Real p = weight(score, summary);
      add_scaled(values.data(), round_.operand(p), row_of(d_output_, i), width());
      add_scaled(keys.data(), round_.operand(d_score(p, gradient, summary)), row_of(q_, i),
                 width());
      if (rounding_ == nullptr) continue;
      const double largest = rounding_->largest_query(i);
      const double shared = head_.scale * p * summary.rounding.gradient_dot;
      variance +=
          largest * largest *
          (shared * shared + rounding_->d_score_variance({.query = i,
                                                          .key = key,
                                                          .score = score,
                                                          .weight = p,
                                                          .d_weight = gradient,
                                                          .gradient_dot = summary.gradient_dot},
                                                         summary.rounding));
    }
    for (size_t c = 0; c < d; ++c) {
      result.d_k[row * d + c] = round_(keys[c]);
      result.d_v[row * d + c] = round_(values[c]);
    }
    if (rounding_ != nullptr) result.d_k_rounding[row] = std::sqrt(variance);
  }

  const AttentionHead& head_;
  Rounding round_;
  const RangeRunner& run_;
  const AttentionRounding* rounding_;
  std::vector<Real> q_, k_, v_, d_output_;
  std::vector<Summary> summaries_;
};

}  // namespace

AttentionRowsResult attention_rows_fp64(const AttentionHead& head, std::span<const int64_t> queries,
                                        std::span<const int64_t> keys, const RangeRunner& run,
                                        const AttentionRounding* rounding) {
  return Head<Exact>(head, Exact{}, run, rounding).rows(queries, keys);
}

AttentionRowsResult attention_rows_naive(const AttentionHead& head, DType dtype,
                                         std::span<const int64_t> queries,
                                         std::span<const int64_t> keys, const RangeRunner& run) {
  return Head<Rounded>(head, Rounded{dtype}, run).rows(queries, keys);
}

}  // namespace ridgeline
