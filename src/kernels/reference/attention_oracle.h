// Attention and its gradients for selected rows, in fp64 and, for the tolerance, as a plain
// implementation in the tensors' own dtype computes them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/dtype.h"

namespace ridgeline {

// One head: q, k, v and d_output of S x d, contiguous, already rounded to the dtype. Without
// d_output only the forward results are computed.
struct AttentionHead {
  int64_t seq_len = 0;
  int64_t head_dim = 0;
  bool causal = false;
  double scale = 1;
  std::vector<double> q, k, v, d_output;
};

// Row i of a result belongs to the i-th requested query (output, log_sum_exp, d_q) or key (d_k,
// d_v).
struct AttentionRowsResult {
  std::vector<double> output, log_sum_exp, d_q;  // log_sum_exp: one value per query
  std::vector<double> d_k, d_v;
  // How far rounding may move a row, if requested: one value per query or key.
  std::vector<double> log_sum_exp_rounding, d_q_rounding, d_k_rounding;
};

class AttentionRounding;  // kernels/reference/attention_rounding.h

// Runs body(begin, end) over parts of [0, count), possibly in parallel.
using RangeRunner =
    std::function<void(int64_t count, const std::function<void(int64_t, int64_t)>& body)>;

// Exact up to fp64 rounding. Gradients of key rows need every query, so they cost S * S * d. With
// `rounding`, also returns how far rounding may move these rows in a narrower dtype.
AttentionRowsResult attention_rows_fp64(const AttentionHead& head, std::span<const int64_t> queries,
                                        std::span<const int64_t> keys, const RangeRunner& run,
                                        const AttentionRounding* rounding = nullptr);

// The same in fp32 arithmetic, with every intermediate tensor rounded to `dtype` (for tf32: every
// operand of a product). Its distance from attention_rows_fp64 is the error of a plain
// implementation.
AttentionRowsResult attention_rows_naive(const AttentionHead& head, DType dtype,
                                         std::span<const int64_t> queries,
                                         std::span<const int64_t> keys, const RangeRunner& run);

}  // namespace ridgeline
