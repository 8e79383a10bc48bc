#include "kernels/reference/attention_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/float16.h"

namespace ridgeline {
namespace {

// Compiled for several instruction sets and chosen when the program is loaded; the thread sanitizer
// cannot run the chooser.
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
  // As a product sees it.
  float operand(float value) const { return dtype == DType::tf32 ? float_to_tf32(value) : value; }
};

// One head in the arithmetic of `Rounding`. Every tensor that a graph of single ops would store
// passes through `round_`, every operand of a product through `round_.operand`.
template <class Rounding>
class Head {
 public:
  using Real = typename Rounding::Real;

  Head(const AttentionHead& head, Rounding round, const RangeRunner& run)
      : head_(head),
        round_(round),
        run_(run),
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
    run_(static_cast<int64_t>(queries.size()), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        query_row(queries[static_cast<size_t>(i)], &result.output[static_cast<size_t>(i * width())],
                  result.log_sum_exp[static_cast<size_t>(i)],
                  backward() ? &result.d_q[static_cast<size_t>(i * width())] : nullptr);
    });
    if (keys.empty()) return result;
    summarize_queries();
    run_(static_cast<int64_t>(keys.size()), [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j)
        key_row(keys[static_cast<size_t>(j)], &result.d_k[static_cast<size_t>(j * width())],
                &result.d_v[static_cast<size_t>(j * width())]);
    });
    return result;
  }

 private:
  struct Summary {
    Real largest, total, gradient_dot;  // of a query's softmax and its gradient
  };

  std::vector<Real> operands(const std::vector<double>& values) const {
    std::vector<Real> rounded(values.begin(), values.end());
    for (Real& value : rounded) value = round_.operand(value);
    return rounded;
  }

  bool backward() const { return !head_.d_output.empty(); }
  int64_t width() const { return head_.head_dim; }
  int64_t visible_keys(int64_t query) const { return head_.causal ? query + 1 : head_.seq_len; }
  const Real* row(const std::vector<Real>& matrix, int64_t index) const {
    return &matrix[static_cast<size_t>(index * width())];
  }

  Real scaled_score(int64_t query, int64_t key) const {
    const Real score = round_(dot(row(q_, query), row(k_, key), width()));
    return round_(score * static_cast<Real>(head_.scale));
  }
  Real d_weight(int64_t query, int64_t key) const {
    return round_(dot(row(d_output_, query), row(v_, key), width()));
  }
  Real weight(Real score, const Summary& summary) const {
    return round_(std::exp(score - summary.largest) / summary.total);
  }
  Real d_score(Real weight, Real gradient, const Summary& summary) const {
    return round_(round_(weight * (gradient - summary.gradient_dot)) *
                  static_cast<Real>(head_.scale));
  }

  // Scores and weight gradients of one query over its keys, and what softmax needs of them.
  Summary summarize(int64_t query, std::vector<Real>& scores, std::vector<Real>& d_weights) const {
    const int64_t keys = visible_keys(query);
    scores.resize(static_cast<size_t>(keys));
    d_weights.resize(static_cast<size_t>(keys));
    Summary summary{-std::numeric_limits<Real>::infinity(), 0, 0};
    for (int64_t j = 0; j < keys; ++j) {
      scores[static_cast<size_t>(j)] = scaled_score(query, j);
      if (backward()) d_weights[static_cast<size_t>(j)] = d_weight(query, j);
      summary.largest = std::max(summary.largest, scores[static_cast<size_t>(j)]);
    }
    for (Real score : scores) summary.total += std::exp(score - summary.largest);
    for (size_t j = 0; backward() && j < scores.size(); ++j)
      summary.gradient_dot += weight(scores[j], summary) * d_weights[j];
    return summary;
  }

  void query_row(int64_t query, double* output, double& log_sum_exp, double* d_q) const {
    std::vector<Real> scores, d_weights;
    const Summary summary = summarize(query, scores, d_weights);
    log_sum_exp = summary.largest + std::log(summary.total);
    std::vector<Real> out(static_cast<size_t>(width()));
    std::vector<Real> gradient(static_cast<size_t>(width()));
    for (size_t j = 0; j < scores.size(); ++j) {
      const Real p = weight(scores[j], summary);
      add_scaled(out.data(), round_.operand(p), row(v_, static_cast<int64_t>(j)), width());
      if (d_q != nullptr)
        add_scaled(gradient.data(), round_.operand(d_score(p, d_weights[j], summary)),
                   row(k_, static_cast<int64_t>(j)), width());
    }
    for (size_t i = 0; i < out.size(); ++i) {
      output[i] = round_(out[i]);
      if (d_q != nullptr) d_q[i] = round_(gradient[i]);
    }
  }

  void summarize_queries() {
    summaries_.resize(static_cast<size_t>(head_.seq_len));
    run_(head_.seq_len, [&](int64_t begin, int64_t end) {
      std::vector<Real> scores, d_weights;
      for (int64_t i = begin; i < end; ++i)
        summaries_[static_cast<size_t>(i)] = summarize(i, scores, d_weights);
    });
  }

  void key_row(int64_t key, double* d_k, double* d_v) const {
    std::vector<Real> keys(static_cast<size_t>(width()));
    std::vector<Real> values(static_cast<size_t>(width()));
    for (int64_t i = head_.causal ? key : 0; i < head_.seq_len; ++i) {
      const Summary& summary = summaries_[static_cast<size_t>(i)];
      const Real p = weight(scaled_score(i, key), summary);
      add_scaled(values.data(), round_.operand(p), row(d_output_, i), width());
      add_scaled(keys.data(), round_.operand(d_score(p, d_weight(i, key), summary)), row(q_, i),
                 width());
    }
    for (size_t c = 0; c < keys.size(); ++c) {
      d_k[c] = round_(keys[c]);
      d_v[c] = round_(values[c]);
    }
  }

  const AttentionHead& head_;
  Rounding round_;
  const RangeRunner& run_;
  std::vector<Real> q_, k_, v_, d_output_;
  std::vector<Summary> summaries_;
};

}  // namespace

AttentionRowsResult attention_rows_fp64(const AttentionHead& head, std::span<const int64_t> queries,
                                        std::span<const int64_t> keys, const RangeRunner& run) {
  return Head<Exact>(head, Exact{}, run).rows(queries, keys);
}

AttentionRowsResult attention_rows_naive(const AttentionHead& head, DType dtype,
                                         std::span<const int64_t> queries,
                                         std::span<const int64_t> keys, const RangeRunner& run) {
  return Head<Rounded>(head, Rounded{dtype}, run).rows(queries, keys);
}

}  // namespace ridgeline
