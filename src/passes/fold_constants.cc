#include "passes/fold_constants.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/float16.h"
#include "base/larger.h"

namespace ridgeline {
namespace {

using Compute = float (*)(const float*);

struct Folding {
  Op op;
  Compute compute;
};

// Pointwise ops that give the same bits on every device.
constexpr Folding kFoldings[] = {
    {Op::negate, [](const float* x) { return -x[0]; }},
    {Op::sqrt, [](const float* x) { return std::sqrt(x[0]); }},
    {Op::cast, [](const float* x) { return x[0]; }},
    {Op::add, [](const float* x) { return x[0] + x[1]; }},
    {Op::subtract, [](const float* x) { return x[0] - x[1]; }},
    {Op::multiply, [](const float* x) { return x[0] * x[1]; }},
    {Op::divide, [](const float* x) { return x[0] / x[1]; }},
    {Op::maximum, [](const float* x) { return larger(x[0], x[1]); }},
    {Op::less, [](const float* x) { return x[0] < x[1] ? 1.0f : 0.0f; }},
    {Op::less_equal, [](const float* x) { return x[0] <= x[1] ? 1.0f : 0.0f; }},
    {Op::equal, [](const float* x) { return x[0] == x[1] ? 1.0f : 0.0f; }},
    {Op::where, [](const float* x) { return x[0] != 0 ? x[1] : x[2]; }},
};

constexpr double kExactIntegers = 1 << 24;  // of fp32, in which kernels may compute

// What a tensor of this dtype holds for `value`, if that is the same everywhere.
std::optional<float> stored(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::f32:
    case DType::tf32:
      return narrow;
    case DType::bf16:
      return bf16_to_float(float_to_bf16(narrow));
    case DType::f16:
      return f16_to_float(float_to_f16(narrow));
    case DType::i32:
      if (!(std::abs(value) <= kExactIntegers)) return std::nullopt;
      return std::trunc(narrow);
    case DType::boolean:
      return value != 0 ? 1.0f : 0.0f;
  }
  return std::nullopt;
}

Compute folding_of(Op op) {
  for (const Folding& each : kFoldings)
    if (each.op == op) return each.compute;
  return nullptr;
}

}  // namespace

std::optional<double> constant_value(const Graph& graph, Value x) {
  const Node* node = &graph.node(x);
  while (is_view(node->op)) node = &graph.node(node->inputs[0]);
  if (node->op != Op::constant) return std::nullopt;
  return std::get<Scalar>(node->attributes.detail).value;
}

std::optional<double> fold(const Graph& graph, Value y) {
  const Node& node = graph.node(y);
  const Compute compute = folding_of(node.op);
  if (compute == nullptr) return std::nullopt;
  std::vector<float> operands;
  for (Value input : node.inputs) {
    const std::optional<double> value = constant_value(graph, input);
    if (!value) return std::nullopt;
    const std::optional<float> held = stored(graph.type(input).dtype, *value);
    if (!held) return std::nullopt;
    operands.push_back(*held);
  }
  const std::optional<float> result = stored(graph.type(y).dtype, compute(operands.data()));
  if (!result || std::isnan(*result)) return std::nullopt;
  // Devices differ in what they do below the smallest normal number.
  if (*result != 0 && std::abs(*result) < std::numeric_limits<float>::min()) return std::nullopt;
  return *result;
}

}  // namespace ridgeline
