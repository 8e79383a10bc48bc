// Attention in plain loops, in fp64 and as a naive implementation of each dtype would round, for
// flash tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/float16.h"
#include "kernels/cpu/flash.h"

namespace ridgeline::flash_testing {

enum class Layout { contiguous, heads_inside, columns_apart };

struct Config {
  int64_t batch = 1, heads = 1, key_heads = 1, queries = 8, keys = 8, head_dim = 16;
  AttentionMask mask = {};
  DType dtype = DType::f32;
  Layout layout = Layout::contiguous;
  double magnitude = 1.0;  // of queries and keys
};

inline std::string describe(const Config& c) {
  return "B " + std::to_string(c.batch) + " H " + std::to_string(c.heads) + "/" +
         std::to_string(c.key_heads) + " Sq " + std::to_string(c.queries) + " Sk " +
         std::to_string(c.keys) + " D " + std::to_string(c.head_dim) + " " +
         std::string(info(c.dtype).name) + (c.mask.causal ? " causal" : "") +
         (c.mask.alignment == AttentionMask::Alignment::bottom_right ? " bottom-right" : "") +
         " window " + std::to_string(c.mask.window) + " layout " +
         std::to_string(static_cast<int>(c.layout)) + " magnitude " + std::to_string(c.magnitude);
}

inline double scale_of(const Config& config) {
  return 1.0 / std::sqrt(static_cast<double>(config.head_dim));
}

inline double round_to(DType dtype, double value) {
  const auto single = static_cast<float>(value);
  switch (dtype) {
    case DType::bf16:
      return bf16_to_float(float_to_bf16(single));
    case DType::f16:
      return f16_to_float(float_to_f16(single));
    case DType::tf32:
      return float_to_tf32(single);
    default:
      return single;
  }
}

// A tensor [B, H, S, D] or [B, H, S] that owns its storage; everything starts as NaN.
class Tensor {
 public:
  Tensor(DType dtype, const Shape& shape, Layout layout) : dtype_(dtype), shape_(shape) {
    strides_ = contiguous_strides(shape);
    if (layout == Layout::heads_inside && shape.rank() == 4) {
      strides_ = {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
    } else if (layout != Layout::contiguous) {
      for (int axis = 0; axis < shape.rank(); ++axis) strides_[axis] *= 2;
    }
    const auto bytes = static_cast<size_t>(element_count(shape) * 2 * info(dtype).size);
    bytes_.assign(bytes, 0xff);
  }

  TensorView view() {
    return {.data = bytes_.data(), .dtype = dtype_, .shape = shape_, .strides = strides_};
  }

  std::vector<double> values() const {
    std::vector<double> values;
    for_each([&](int64_t offset) { values.push_back(load(offset)); });
    return values;
  }

  // Rounds to the dtype.
  void assign(const std::vector<double>& values) {
    size_t next = 0;
    for_each([&](int64_t offset) { store(offset, values[next++]); });
  }

  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  template <class F>
  void for_each(F f) const {
    const int64_t columns = shape_.rank() == 4 ? shape_[3] : 1;
    for (int64_t b = 0; b < shape_[0]; ++b)
      for (int64_t h = 0; h < shape_[1]; ++h)
        for (int64_t s = 0; s < shape_[2]; ++s)
          for (int64_t d = 0; d < columns; ++d)
            f(b * strides_[0] + h * strides_[1] + s * strides_[2] +
              (shape_.rank() == 4 ? d * strides_[3] : 0));
  }
  double load(int64_t offset) const {
    if (info(dtype_).size == 4) return reinterpret_cast<const float*>(bytes_.data())[offset];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(bytes_.data())[offset];
    return dtype_ == DType::bf16 ? bf16_to_float(bits) : f16_to_float(bits);
  }
  void store(int64_t offset, double value) {
    const auto single = static_cast<float>(value);
    if (info(dtype_).size == 4)
      reinterpret_cast<float*>(bytes_.data())[offset] = single;
    else
      reinterpret_cast<uint16_t*>(bytes_.data())[offset] =
          dtype_ == DType::bf16 ? float_to_bf16(single) : float_to_f16(single);
  }

  DType dtype_;
  Shape shape_;
  Strides strides_;
  std::vector<uint8_t> bytes_;
};

inline bool may_see(const Config& config, int64_t query, int64_t key) {
  const AttentionMask& mask = config.mask;
  const bool bottom_right = mask.alignment == AttentionMask::Alignment::bottom_right;
  const int64_t position = query + (bottom_right ? config.keys - config.queries : 0);
  if ((mask.causal || mask.window > 0) && key > position) return false;
  return mask.window == 0 || key > position - mask.window;
}

struct Inputs {
  std::vector<double> q, k, v, d_out;
};

struct Results {
  std::vector<double> out, log_sum_exp, d_q, d_k, d_v;
};

// What is made of the score of query i and key j of a head, counted over the batch; and the
// gradient of the score from that of the result.
template <class Value, class Gradient>
struct ScoreFunction {
  Value value;
  Gradient d_score;
};
inline constexpr auto kSame = [](int64_t, int64_t, int64_t, double x) { return x; };
inline constexpr ScoreFunction kPlainScores = {kSame, kSame};

// The textbook: scores, softmax, products, one matrix per head. `Real` accumulates, and `round`
// stands for writing a matrix of the dtype to memory.
template <class Real, class Round, class Function = decltype(kPlainScores)>
Results attend(const Config& config, const Inputs& in, Round round,
               const Function& function = kPlainScores) {
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  const int64_t d = config.head_dim, group = config.heads / config.key_heads;
  const auto scale = static_cast<Real>(scale_of(config));
  Results result;
  result.out.assign(in.q.size(), 0.0);
  result.d_q.assign(in.q.size(), 0.0);
  result.log_sum_exp.assign(in.q.size() / size(d), -std::numeric_limits<double>::infinity());
  std::vector<Real> d_k(in.k.size(), 0), d_v(in.k.size(), 0);
  const auto dot = [&](const double* a, const double* b) {
    Real sum = 0;
    for (int64_t i = 0; i < d; ++i) sum += static_cast<Real>(a[i]) * static_cast<Real>(b[i]);
    return sum;
  };
  for (int64_t bh = 0; bh < config.batch * config.heads; ++bh) {
    const int64_t key_head = bh / config.heads * config.key_heads + bh % config.heads / group;
    const size_t key_base = size(key_head * config.keys * d);
    for (int64_t i = 0; i < config.queries; ++i) {
      const size_t row = size(bh * config.queries + i);
      const double* q = in.q.data() + row * size(d);
      const double* d_out = in.d_out.data() + row * size(d);
      std::vector<Real> weights(size(config.keys), 0);
      constexpr Real kHidden = -std::numeric_limits<Real>::infinity();
      Real largest = kHidden, normalizer = 0;
      for (int64_t j = 0; j < config.keys; ++j) {
        if (!may_see(config, i, j)) continue;
        weights[size(j)] = static_cast<Real>(function.value(
            bh, i, j, round(round(dot(q, in.k.data() + key_base + size(j * d))) * scale)));
        largest = std::max(largest, weights[size(j)]);
      }
      for (int64_t j = 0; j < config.keys; ++j)
        if (may_see(config, i, j))
          normalizer += weights[size(j)] =
              weights[size(j)] == kHidden ? 0 : std::exp(weights[size(j)] - largest);
      if (normalizer == 0) continue;
      result.log_sum_exp[row] = largest + std::log(normalizer);
      std::vector<Real> out(size(d), 0), d_q(size(d), 0), d_weights(size(config.keys), 0);
      Real delta = 0;
      for (int64_t j = 0; j < config.keys; ++j) {
        if (!may_see(config, i, j)) continue;
        const size_t key = key_base + size(j * d);
        Real& weight = weights[size(j)];
        weight = static_cast<Real>(round(weight / normalizer));
        for (size_t c = 0; c < size(d); ++c) {
          out[c] += weight * static_cast<Real>(in.v[key + c]);
          d_v[key + c] += weight * static_cast<Real>(d_out[c]);
        }
        d_weights[size(j)] = static_cast<Real>(round(dot(d_out, in.v.data() + key)));
        delta += weight * d_weights[size(j)];
      }
      for (int64_t j = 0; j < config.keys; ++j) {
        if (!may_see(config, i, j)) continue;
        const size_t key = key_base + size(j * d);
        const double d_value = round(weights[size(j)] * (d_weights[size(j)] - delta));
        const auto d_score = static_cast<Real>(
            round(static_cast<Real>(function.d_score(bh, i, j, d_value)) * scale));
        for (size_t c = 0; c < size(d); ++c) {
          d_q[c] += d_score * static_cast<Real>(in.k[key + c]);
          d_k[key + c] += d_score * static_cast<Real>(q[c]);
        }
      }
      for (size_t c = 0; c < size(d); ++c) {
        result.out[row * size(d) + c] = round(out[c]);
        result.d_q[row * size(d) + c] = round(d_q[c]);
      }
    }
  }
  for (Real value : d_k) result.d_k.push_back(round(value));
  for (Real value : d_v) result.d_v.push_back(round(value));
  return result;
}

inline Results oracle(const Config& config, const Inputs& in) {
  return attend<double>(config, in, [](double value) { return value; });
}

inline Results naive(const Config& config, const Inputs& in) {
  return attend<float>(config, in, [&](double value) { return round_to(config.dtype, value); });
}

inline Inputs random_inputs(const Config& config, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const auto fill = [&](int64_t count, double magnitude) {
    std::vector<double> values(static_cast<size_t>(count));
    for (double& value : values) value = round_to(config.dtype, magnitude * normal(random));
    return values;
  };
  const int64_t queries = config.batch * config.heads * config.queries * config.head_dim;
  const int64_t keys = config.batch * config.key_heads * config.keys * config.head_dim;
  return {.q = fill(queries, config.magnitude),
          .k = fill(keys, config.magnitude),
          .v = fill(keys, 1.0),
          .d_out = fill(queries, 1.0)};
}

inline double largest(const std::vector<double>& values) {
  double result = 0;
  for (double value : values)
    if (std::isfinite(value)) result = std::max(result, std::fabs(value));
  return result;
}

// Infinity where one is NaN, or infinite and the other is not.
inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double result = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i]) continue;
    const double gap = std::fabs(a[i] - b[i]);
    result = std::max(result, std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap);
  }
  return result;
}

struct Outcome {
  Tensor out, log_sum_exp, d_q, d_k, d_v;
};

struct Rule {
  double factor;
  double floor;
};

inline void expect_close(const char* name, const Tensor& actual, const std::vector<double>& exact,
                         const std::vector<double>& rounded, Rule rule) {
  const double error = distance(actual.values(), exact);
  const double allowed = rule.factor * distance(rounded, exact) + rule.floor;
  EXPECT_LE(error, allowed) << name << ": error " << error << ", naive " << distance(rounded, exact)
                            << ", floor " << rule.floor;
}

// The field's rule: twice the error of a naive implementation of the same dtype, three times for
// gradients.
inline void expect_right(const Config& config, const Inputs& in, const Results& exact,
                         const Results& rounded, const Outcome& run) {
  const double epsilon = info(config.dtype).epsilon;
  const double single = info(DType::f32).epsilon;
  // A value of the dtype is known to half an epsilon at best. Beyond that: a few roundings in fp32
  // of what cancels, and half a unit in the last place of the largest score, which moves whole
  // weights.
  const double score = largest(exact.log_sum_exp);
  const double d_score = largest(in.d_out) * largest(in.v);
  const auto floor = [&](const std::vector<double>& values, double cancelled) {
    return (0.5 * epsilon + (2 + 0.5 * score) * single) * largest(values) + 8 * single * cancelled;
  };
  expect_close("out", run.out, exact.out, rounded.out, {2, floor(exact.out, 1)});
  expect_close("log_sum_exp", run.log_sum_exp, exact.log_sum_exp, rounded.log_sum_exp,
               {2, 8 * single * (1 + score)});
  expect_close("d_q", run.d_q, exact.d_q, rounded.d_q,
               {3, floor(exact.d_q, d_score * largest(in.k))});
  expect_close("d_k", run.d_k, exact.d_k, rounded.d_k,
               {3, floor(exact.d_k, d_score * largest(in.q))});
  expect_close("d_v", run.d_v, exact.d_v, rounded.d_v, {3, floor(exact.d_v, 1)});
}

}  // namespace ridgeline::flash_testing
