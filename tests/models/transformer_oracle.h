// TransformerLM in fp64 by plain loops, forward and backward by hand, and AdamW by its formulas: no
// graph, no autodiff, no kernel.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/transformer_lm.h"

namespace ridgeline::testing {

using Doubles = std::vector<double>;
using NamedDoubles = std::map<std::string, Doubles>;

struct OracleResult {
  Doubles logits;
  double loss = 0;
  NamedDoubles gradients;
};

class TransformerOracle {
 public:
  TransformerOracle(const TransformerConfig& config, const NamedDoubles& weights)
      : c_(config), w_(weights) {}

  OracleResult run(const std::vector<int>& tokens, const std::vector<int>& targets) {
    const size_t n = tokens.size(), d = size(c_.d_model), vocabulary = size(c_.vocabulary);
    result_ = {};
    for (const auto& [name, values] : w_) result_.gradients[name].assign(values.size(), 0);

    Doubles x(n * d);
    for (size_t t = 0; t < n; ++t)
      for (size_t i = 0; i < d; ++i)
        x[t * d + i] = w_.at("token_embeddings.weight")[size(tokens[t]) * d + i];
    std::vector<Layer> layers(size(c_.layers));
    for (size_t l = 0; l < layers.size(); ++l) x = forward(layers[l], prefix(l), x);
    const Doubles last = x;
    const Doubles normed = norm(last, "ln_final.weight");
    result_.logits = product(normed, "lm_head.weight", d, vocabulary);

    Doubles d_logits(n * vocabulary);
    for (size_t t = 0; t < n; ++t) {
      const double* row = &result_.logits[t * vocabulary];
      const double largest = *std::max_element(row, row + vocabulary);
      double total = 0;
      for (size_t v = 0; v < vocabulary; ++v) total += std::exp(row[v] - largest);
      const double count = static_cast<double>(n);
      result_.loss -= (row[targets[t]] - largest - std::log(total)) / count;
      for (size_t v = 0; v < vocabulary; ++v)
        d_logits[t * vocabulary + v] =
            (std::exp(row[v] - largest) / total - (v == size(targets[t]) ? 1 : 0)) / count;
    }

    Doubles d_x =
        norm_backward(last, "ln_final.weight",
                      product_backward(normed, "lm_head.weight", d, vocabulary, d_logits));
    for (size_t l = layers.size(); l-- > 0;) d_x = backward(layers[l], prefix(l), d_x);
    for (size_t t = 0; t < n; ++t)
      for (size_t i = 0; i < d; ++i)
        result_.gradients["token_embeddings.weight"][size(tokens[t]) * d + i] += d_x[t * d + i];
    return result_;
  }

 private:
  struct Layer {
    Doubles x, ln1, q, k, v, weights, mixed, h, ln2, a, b, fed;
  };

  static size_t size(int64_t value) { return static_cast<size_t>(value); }
  static std::string prefix(size_t layer) { return "layers." + std::to_string(layer) + "."; }

  // y = x W^T, and its gradients.
  Doubles product(const Doubles& x, const std::string& name, size_t in, size_t out) {
    const Doubles& w = w_.at(name);
    Doubles y(x.size() / in * out);
    for (size_t t = 0; t < x.size() / in; ++t)
      for (size_t o = 0; o < out; ++o)
        for (size_t i = 0; i < in; ++i) y[t * out + o] += x[t * in + i] * w[o * in + i];
    return y;
  }
  Doubles product_backward(const Doubles& x, const std::string& name, size_t in, size_t out,
                           const Doubles& d_y) {
    const Doubles& w = w_.at(name);
    Doubles& d_w = result_.gradients[name];
    Doubles d_x(x.size());
    for (size_t t = 0; t < x.size() / in; ++t)
      for (size_t o = 0; o < out; ++o)
        for (size_t i = 0; i < in; ++i) {
          d_x[t * in + i] += d_y[t * out + o] * w[o * in + i];
          d_w[o * in + i] += d_y[t * out + o] * x[t * in + i];
        }
    return d_x;
  }

  double inverse_root(const double* row) const {
    double total = 0;
    for (int64_t i = 0; i < c_.d_model; ++i) total += row[i] * row[i];
    return 1 / std::sqrt(total / static_cast<double>(c_.d_model) + c_.norm_epsilon);
  }
  Doubles norm(const Doubles& x, const std::string& name) {
    const size_t d = size(c_.d_model);
    Doubles y(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = x[i] * inverse_root(&x[i / d * d]) * w_.at(name)[i % d];
    return y;
  }
  Doubles norm_backward(const Doubles& x, const std::string& name, const Doubles& d_y) {
    const size_t d = size(c_.d_model);
    const Doubles& w = w_.at(name);
    Doubles d_x(x.size());
    for (size_t t = 0; t < x.size() / d; ++t) {
      const double r = inverse_root(&x[t * d]);
      double dot = 0;
      for (size_t i = 0; i < d; ++i) {
        dot += d_y[t * d + i] * w[i] * x[t * d + i];
        result_.gradients[name][i] += d_y[t * d + i] * x[t * d + i] * r;
      }
      for (size_t i = 0; i < d; ++i)
        d_x[t * d + i] =
            r * d_y[t * d + i] * w[i] - x[t * d + i] * r * r * r * dot / static_cast<double>(d);
    }
    return d_x;
  }

  // Turns pairs of every head by the angle of the token's position, or back.
  Doubles turn(Doubles x, double direction) const {
    const size_t d = size(c_.d_model), width = size(c_.head_dim());
    for (size_t t = 0; t < x.size() / d; ++t)
      for (size_t i = 0; i < d; i += 2) {
        const double power = static_cast<double>(i % width) / static_cast<double>(width);
        const double angle = static_cast<double>(t % size(c_.context_length)) *
                             std::pow(c_.rope_theta, -power) * direction;
        const double even = x[t * d + i], odd = x[t * d + i + 1];
        x[t * d + i] = even * std::cos(angle) - odd * std::sin(angle);
        x[t * d + i + 1] = even * std::sin(angle) + odd * std::cos(angle);
      }
    return x;
  }

  // Calls f(head's first column, query token, key token, index of the weight) for visible pairs.
  template <class F>
  void for_each_pair(F f) const {
    const size_t length = size(c_.context_length);
    for (size_t b = 0; b < size(c_.batch_size); ++b)
      for (size_t h = 0; h < size(c_.heads); ++h)
        for (size_t i = 0; i < length; ++i)
          for (size_t j = 0; j <= i; ++j)
            f(h * size(c_.head_dim()), b * length + i, b * length + j,
              ((b * size(c_.heads) + h) * length + i) * length + j);
  }

  Doubles attend(Layer& l) const {
    const size_t d = size(c_.d_model), width = size(c_.head_dim());
    const size_t length = size(c_.context_length);
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    l.weights.assign(size(c_.batch_size * c_.heads) * length * length, 0);
    for_each_pair([&](size_t column, size_t query, size_t key, size_t at) {
      double dot = 0;
      for (size_t e = 0; e < width; ++e)
        dot += l.q[query * d + column + e] * l.k[key * d + column + e];
      l.weights[at] = std::exp(dot * scale);
    });
    for (size_t row = 0; row < l.weights.size(); row += length) {
      double total = 0;
      for (size_t j = 0; j < length; ++j) total += l.weights[row + j];
      for (size_t j = 0; j < length; ++j) l.weights[row + j] /= total;
    }
    Doubles mixed(l.q.size());
    for_each_pair([&](size_t column, size_t query, size_t key, size_t at) {
      for (size_t e = 0; e < width; ++e)
        mixed[query * d + column + e] += l.weights[at] * l.v[key * d + column + e];
    });
    return mixed;
  }
  void attend_backward(const Layer& l, const Doubles& d_mixed, Doubles& d_q, Doubles& d_k,
                       Doubles& d_v) const {
    const size_t d = size(c_.d_model), width = size(c_.head_dim());
    const size_t length = size(c_.context_length);
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    Doubles d_weights(l.weights.size()), dots(l.weights.size() / length);
    for_each_pair([&](size_t column, size_t query, size_t key, size_t at) {
      for (size_t e = 0; e < width; ++e) {
        const double d_out = d_mixed[query * d + column + e];
        d_weights[at] += d_out * l.v[key * d + column + e];
        d_v[key * d + column + e] += d_out * l.weights[at];
      }
      dots[at / length] += l.weights[at] * d_weights[at];
    });
    for_each_pair([&](size_t column, size_t query, size_t key, size_t at) {
      const double d_score = l.weights[at] * (d_weights[at] - dots[at / length]) * scale;
      for (size_t e = 0; e < width; ++e) {
        d_q[query * d + column + e] += d_score * l.k[key * d + column + e];
        d_k[key * d + column + e] += d_score * l.q[query * d + column + e];
      }
    });
  }

  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  Doubles forward(Layer& l, const std::string& p, const Doubles& x) {
    const size_t d = size(c_.d_model), ff = size(c_.d_ff);
    l.x = x;
    l.ln1 = norm(x, p + "ln1.weight");
    l.q = turn(product(l.ln1, p + "attn.q_proj.weight", d, d), 1);
    l.k = turn(product(l.ln1, p + "attn.k_proj.weight", d, d), 1);
    l.v = product(l.ln1, p + "attn.v_proj.weight", d, d);
    l.mixed = attend(l);
    l.h = product(l.mixed, p + "attn.output_proj.weight", d, d);
    for (size_t i = 0; i < x.size(); ++i) l.h[i] += x[i];
    l.ln2 = norm(l.h, p + "ln2.weight");
    l.a = product(l.ln2, p + "ffn.w1.weight", d, ff);
    l.b = product(l.ln2, p + "ffn.w3.weight", d, ff);
    l.fed.resize(l.a.size());
    for (size_t i = 0; i < l.a.size(); ++i) l.fed[i] = l.a[i] * sigmoid(l.a[i]) * l.b[i];
    Doubles out = product(l.fed, p + "ffn.w2.weight", ff, d);
    for (size_t i = 0; i < out.size(); ++i) out[i] += l.h[i];
    return out;
  }

  Doubles backward(const Layer& l, const std::string& p, const Doubles& d_out) {
    const size_t d = size(c_.d_model), ff = size(c_.d_ff);
    const Doubles d_fed = product_backward(l.fed, p + "ffn.w2.weight", ff, d, d_out);
    Doubles d_a(l.a.size()), d_b(l.a.size());
    for (size_t i = 0; i < l.a.size(); ++i) {
      const double s = sigmoid(l.a[i]);
      d_a[i] = d_fed[i] * l.b[i] * (s + l.a[i] * s * (1 - s));
      d_b[i] = d_fed[i] * l.a[i] * s;
    }
    Doubles d_ln2 = product_backward(l.ln2, p + "ffn.w1.weight", d, ff, d_a);
    add(d_ln2, product_backward(l.ln2, p + "ffn.w3.weight", d, ff, d_b));
    Doubles d_h = norm_backward(l.h, p + "ln2.weight", d_ln2);
    add(d_h, d_out);

    const Doubles d_mixed = product_backward(l.mixed, p + "attn.output_proj.weight", d, d, d_h);
    Doubles d_q(l.q.size()), d_k(l.q.size()), d_v(l.q.size());
    attend_backward(l, d_mixed, d_q, d_k, d_v);
    Doubles d_ln1 = product_backward(l.ln1, p + "attn.q_proj.weight", d, d, turn(d_q, -1));
    add(d_ln1, product_backward(l.ln1, p + "attn.k_proj.weight", d, d, turn(d_k, -1)));
    add(d_ln1, product_backward(l.ln1, p + "attn.v_proj.weight", d, d, d_v));
    Doubles d_x = norm_backward(l.x, p + "ln1.weight", d_ln1);
    add(d_x, d_h);
    return d_x;
  }

  static void add(Doubles& to, const Doubles& from) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }

  const TransformerConfig& c_;
  const NamedDoubles& w_;
  OracleResult result_;
};

// The step of both variants as the papers and libraries write them.
struct AdamWOracle {
  AdamWOptions options;
  NamedDoubles m = {}, v = {};

  void step(NamedDoubles& weights, NamedDoubles gradients, int64_t t, double rate) {
    double squares = 0;
    for (const auto& [name, g] : gradients)
      for (double value : g) squares += value * value;
    if (options.max_norm > 0)
      for (auto& [name, g] : gradients)
        for (double& value : g)
          value *= std::min(1.0, options.max_norm / (std::sqrt(squares) + 1e-6));
    const double c1 = 1 - std::pow(options.beta1, static_cast<double>(t));
    const double c2 = 1 - std::pow(options.beta2, static_cast<double>(t));
    for (auto& [name, p] : weights) {
      m[name].resize(p.size());
      v[name].resize(p.size());
      for (size_t i = 0; i < p.size(); ++i) {
        const double g = gradients[name][i];
        double& first = m[name][i];
        double& second = v[name][i];
        first = options.beta1 * first + (1 - options.beta1) * g;
        second = options.beta2 * second + (1 - options.beta2) * g * g;
        if (options.variant == AdamWVariant::cs336) {
          p[i] -= rate * std::sqrt(c2) / c1 * first / (std::sqrt(second) + options.epsilon);
          p[i] -= rate * options.weight_decay * p[i];
        } else {
          p[i] *= 1 - rate * options.weight_decay;
          p[i] -= rate * (first / c1) / (std::sqrt(second / c2) + options.epsilon);
        }
      }
    }
  }
};

}  // namespace ridgeline::testing
