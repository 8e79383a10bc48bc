// Attention and its gradient by their definitions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/reference/evaluators.h"

namespace ridgeline::reference {
namespace {

// Attention by its definition, one query at a time. `use` gets the query's weights over the visible
// keys.
template <class Use>
void for_each_query(const Call& call, Use use) {
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  const Shape& q = call.inputs[0].shape;
  const Shape& k = call.inputs[1].shape;
  for (int64_t head = 0; head < q[0] * q[1]; ++head) {
    const int64_t key_head = head / q[1] * k[1] + head % q[1] / (q[1] / k[1]);
    for (int64_t query = 0; query < q[2]; ++query) {
      const KeyRange range = visible_keys(spec.mask, query, q[2], k[2]);
      const double* q_row = &call.inputs[0].data[static_cast<size_t>((head * q[2] + query) * q[3])];
      std::vector<double> weights;
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t key = range.first; key < range.last; ++key) {
        const double* k_row =
            &call.inputs[1].data[static_cast<size_t>((key_head * k[2] + key) * q[3])];
        weights.push_back(spec.scale * std::inner_product(q_row, q_row + q[3], k_row, 0.0));
        largest = std::max(largest, weights.back());
      }
      double total = 0;
      for (double& weight : weights) total += weight = std::exp(weight - largest);
      for (double& weight : weights) weight /= total;
      const double log_sum_exp = weights.empty() ? largest : largest + std::log(total);
      use(head * q[2] + query, key_head * k[2] + range.first, weights, log_sum_exp);
    }
  }
}

}  // namespace

Results attention(const Call& call) {
  const auto width = static_cast<size_t>(call.shape[3]);
  const Data& v = call.inputs[2].data;
  Data output(call.inputs[0].data.size());
  Data log_sum_exps(output.size() / width);
  for_each_query(call, [&](int64_t query, int64_t first_key, const Data& weights,
                           double log_sum_exp) {
    const auto row = static_cast<size_t>(query);
    log_sum_exps[row] = log_sum_exp;
    for (size_t j = 0; j < weights.size(); ++j)
      for (size_t c = 0; c < width; ++c)
        output[row * width + c] += weights[j] * v[(static_cast<size_t>(first_key) + j) * width + c];
  });
  return {std::move(output), std::move(log_sum_exps)};
}

Results attention_gradient(const Call& call) {
  const auto width = static_cast<size_t>(call.shape[3]);
  const double scale = std::get<AttentionSpec>(call.node.attributes.detail).scale;
  const Data& q = call.inputs[0].data;
  const Data& k = call.inputs[1].data;
  const Data& v = call.inputs[2].data;
  const Data& d_output = call.inputs[5].data;
  Data d_q(q.size()), d_k(k.size()), d_v(v.size());
  for_each_query(call, [&](int64_t query, int64_t first_key, const Data& weights, double) {
    const size_t at_query = static_cast<size_t>(query) * width;
    const double* gradient = &d_output[at_query];
    std::vector<double> d_weights;
    double dot = 0;
    for (size_t j = 0; j < weights.size(); ++j) {
      const double* v_row = &v[(static_cast<size_t>(first_key) + j) * width];
      d_weights.push_back(std::inner_product(gradient, gradient + width, v_row, 0.0));
      dot += weights[j] * d_weights[j];
    }
    for (size_t j = 0; j < weights.size(); ++j) {
      const size_t at_key = (static_cast<size_t>(first_key) + j) * width;
      const double d_score = weights[j] * (d_weights[j] - dot) * scale;
      for (size_t c = 0; c < width; ++c) {
        d_q[at_query + c] += d_score * k[at_key + c];
        d_k[at_key + c] += d_score * q[at_query + c];
        d_v[at_key + c] += weights[j] * gradient[c];
      }
    }
  });
  return {std::move(d_q), std::move(d_k), std::move(d_v)};
}

}  // namespace ridgeline::reference
