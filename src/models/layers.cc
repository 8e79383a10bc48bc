#include "models/layers.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "graph/scope.h"

namespace ridgeline {

void check_sizes(std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  for (const auto& [name, size] : sizes)
    if (size < 1)
      throw Error(ErrorKind::usage, fmt::format("the {} is {}, expected at least 1", name, size));
}

Tensor linear(const Tensor& x, const Tensor& weight) {
  return matmul(x, transpose(weight));
}

Tensor embedding(const Tensor& tokens, const Tensor& weight) {
  const ScopeGuard scope(weight.graph(), "embedding");
  return gather(weight, tokens);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  const ScopeGuard scope(x.graph(), kNormScope);
  const Tensor wide = cast(x, DType::f32);
  const Tensor inverse_root = rsqrt(mean(wide * wide, {-1}) + epsilon);
  return cast(wide * inverse_root * cast(weight, DType::f32), x.dtype());
}

Tensor layer_norm(const Tensor& x, const LayerNormWeights& weights, double epsilon) {
  const ScopeGuard scope(x.graph(), kNormScope);
  const auto width = static_cast<double>(x.shape().back());
  const Tensor centred = x - sum(x, {-1}) / width;
  const Tensor variance = sum(centred * centred, {-1}) / width;
  return centred * rsqrt(variance + epsilon) * weights.weight + weights.bias;
}

Tensor swiglu(const Tensor& x, const SwiGluWeights& weights) {
  const ScopeGuard scope(x.graph(), "ffn");
  return linear(silu(linear(x, weights.w1)) * linear(x, weights.w3), weights.w2);
}

RopeValues rope_values(int64_t positions, int64_t head_dim, double theta) {
  RopeValues values;
  for (int64_t position = 0; position < positions; ++position)
    for (int64_t k = 0; k < head_dim / 2; ++k) {
      const double frequency =
          std::pow(theta, -2.0 * static_cast<double>(k) / static_cast<double>(head_dim));
      const double angle = static_cast<double>(position) * frequency;
      values.cos.push_back(static_cast<float>(std::cos(angle)));
      values.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  return values;
}

Tensor rope(const Tensor& x, const RopeTables& tables) {
  const ScopeGuard scope(x.graph(), "rope");
  Shape pairs = x.shape();
  const int axis = pairs.rank();
  pairs.back() /= 2;
  Shape half = pairs;
  pairs.push_back(2);
  const Tensor split = reshape(x, pairs);
  const Tensor even = reshape(slice(split, axis, 0, 1), half);
  const Tensor odd = reshape(slice(split, axis, 1, 2), half);
  const Tensor cos = cast(tables.cos, x.dtype());
  const Tensor sin = cast(tables.sin, x.dtype());
  half.push_back(1);
  const std::array rotated = {reshape(even * cos - odd * sin, half),
                              reshape(even * sin + odd * cos, half)};
  return reshape(concat(rotated, axis), x.shape());
}

Tensor rope_of_halves(const Tensor& x, const RopeTables& tables) {
  const ScopeGuard scope(x.graph(), "rope");
  const int axis = x.shape().rank() - 1;
  const int64_t half = x.shape().back() / 2;
  const Tensor first = slice(x, axis, 0, half);
  const Tensor second = slice(x, axis, half, 2 * half);
  const Tensor cos = cast(tables.cos, x.dtype());
  const Tensor sin = cast(tables.sin, x.dtype());
  const std::array rotated = {first * cos - second * sin, second * cos + first * sin};
  return concat(rotated, axis);
}

std::vector<float> beginning_of(const Parameter& parameter, uint64_t seed) {
  const auto count = static_cast<size_t>(element_count(parameter.shape));
  using enum Parameter::Beginning;
  if (parameter.beginning == ones) return std::vector<float>(count, 1.0f);
  if (parameter.beginning == zeros) return std::vector<float>(count, 0.0f);
  const bool is_normal = parameter.beginning == normal;
  const double deviation =
      is_normal ? parameter.deviation
      : parameter.beginning == Parameter::Beginning::linear
          ? std::sqrt(2.0 / static_cast<double>(parameter.shape[0] + parameter.shape[1]))
          : 1.0;
  // In standard deviations.
  const double cut = is_normal ? std::numeric_limits<double>::infinity() : 3;
  NormalRandom random(seed, parameter.name);
  std::vector<float> values(count);
  for (float& value : values) {
    double drawn = random.next();
    while (std::abs(drawn) > cut) drawn = random.next();
    value = static_cast<float>(deviation * drawn);
  }
  return values;
}

}  // namespace ridgeline
