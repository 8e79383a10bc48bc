// How far rounding errors move results of attention in which large terms cancel: the log-sum-exp,
// d_q and d_k. docs/measuring.md has the derivation.
#pragma once

#include <span>
#include <vector>

#include "kernels/reference/attention_oracle.h"

namespace ridgeline {

class AttentionRounding {
 public:
  // Results are stored in `dtype`; products are accumulated in fp32.
  AttentionRounding(const AttentionHead& head, DType dtype);

  // One query over the keys that it sees.
  struct Weights {
    std::span<const double> scores, weights, d_weights;
    double gradient_dot = 0;  // the sum of weights times d_weights
  };
  // The errors that its keys share.
  struct Query {
    double log_sum_exp = 0;
    double gradient_dot = 0;
    bool is_lone = false;  // one visible key: its weight is 1 and the output its value
  };
  Query query(int64_t query, const Weights& of) const;

  struct Pair {
    int64_t query = 0, key = 0;
    double score = 0, weight = 0, d_weight = 0, gradient_dot = 0;
  };
  // The variance of a gradient of a score, from its own terms, without the query's gradient_dot.
  double d_score_variance(const Pair& pair, const Query& of) const;

  // The largest magnitude of a row.
  double largest_query(int64_t row) const { return q_.largest[static_cast<size_t>(row)]; }
  double largest_key(int64_t row) const { return k_.largest[static_cast<size_t>(row)]; }

 private:
  struct Rows {
    std::vector<double> norm, largest;
  };
  static Rows rows_of(const std::vector<double>& values, int64_t width);
  double product(const Rows& a, int64_t row, double b_norm) const;
  double score(int64_t query, int64_t key) const;
  double weight(const Pair& pair, const Query& of) const;  // relative
  double d_weight(const Pair& pair, const Query& of) const;
  double stored(const Query& of) const { return of.is_lone ? 0 : stored_; }

  double scale_;
  double growth_;   // of a product
  double operand_;  // relative error of a product's operand
  double stored_;   // relative error of what is stored in 16 bits
  Rows q_, k_, v_, d_output_;
};

}  // namespace ridgeline
