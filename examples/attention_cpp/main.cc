// Attention and its gradients in C++. The loss is the sum of all outputs, and the weights of each
// query sum to 1, so the gradients of the values must sum to the number of outputs.
#include <ridgeline/attention.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  const rl::Sizes shape = {2, 4, 128, 64}, rows = {2, 4, 128};  // batch, heads, sequence, head_dim
  const auto n = static_cast<size_t>(shape.elements());
  std::vector<float> q(n), k(n), v(n), out(n), d_out(n, 1), d_q(n), d_k(n), d_v(n), lse(n / 64);
  for (size_t i = 0; i < n; ++i) q[i] = std::sin(0.1f * i), k[i] = std::cos(0.2f * i), v[i] = q[i];

  rl::Context context;
  const rl::AttentionOptions options = {.causal = RL_CAUSAL_TOP_LEFT};
  rl::attention_forward(context,
                        {.q = {q, shape}, .k = {k, shape}, .v = {v, shape}, .out = {out, shape},
                         .log_sum_exp = {lse, rows}}, options);
  rl::attention_backward(context,
                         {.q = {q, shape}, .k = {k, shape}, .v = {v, shape}, .out = {out, shape},
                          .log_sum_exp = {lse, rows}, .d_out = {d_out, shape}, .d_q = {d_q, shape},
                          .d_k = {d_k, shape}, .d_v = {d_v, shape}}, options);

  const double sum = std::accumulate(d_v.begin(), d_v.end(), 0.0);
  std::printf("the gradients of the values sum up to %.3f of %zu\n", sum, n);
  return std::fabs(sum - static_cast<double>(n)) < 1e-3 * static_cast<double>(n) ? 0 : 1;
}
