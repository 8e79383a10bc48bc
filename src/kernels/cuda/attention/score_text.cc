#include "kernels/cuda/attention/score_text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "kernels/cuda/planning.h"
#include "plan/op_text.h"

namespace ridgeline {

static_assert(kMaxFlashOperands == kMaxScoreOperands);

namespace {

const char* number_type(DType dtype) {
  return is_floating(dtype) ? "float" : dtype == DType::boolean ? "bool" : "int";
}

std::string constant_text(double value, DType dtype) {
  if (!is_floating(dtype)) return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("__int_as_float({:#010x})",
                     std::bit_cast<uint32_t>(static_cast<float>(value)));
}

// How f reads an operand: "at.operand<bf16, along::heads | along::keys>(0)".
std::string operand_text(const TensorView& operand, size_t number) {
  return fmt::format("at.operand<{}, {}>({})", element_name(operand.dtype),
                     operand_axes_text(operand), number);
}

// Returns the inverse of a constant: a division takes ten instructions per score, a product one.
std::optional<double> inverse_of(const Graph& graph, Value value) {
  const Node& node = graph.node(value);
  if (node.op != Op::constant || !is_floating(graph.type(value).dtype)) return std::nullopt;
  const double inverse = 1 / std::get<Scalar>(node.attributes.detail).value;
  return std::isnormal(static_cast<float>(inverse)) ? std::optional(inverse) : std::nullopt;
}

// Statements that compute and return `wanted`, a value of one of the function's graphs.
std::string body(const ScoreFunction& function, const Graph& graph, Value wanted,
                 std::span<const TensorView> operands) {
  constexpr const char* kPlaces[] = {"at.batch", "at.head", "at.query", "at.key"};
  const std::vector<Value> inputs = graph.inputs();
  const auto name = [&](Value value) -> std::string {
    const Node& node = graph.node(value);
    if (node.op == Op::constant)
      return constant_text(std::get<Scalar>(node.attributes.detail).value, graph.type(value).dtype);
    if (node.op != Op::input) return fmt::format("v{}", value.node);
    for (size_t i = 0; i < operands.size(); ++i)
      if (inputs[i + 1] == value) return operand_text(operands[i], i);
    for (size_t i = 0; i < function.positions.size(); ++i)
      if (inputs[i + 1 + operands.size()] == value) return kPlaces[function.positions[i]];
    return node.name;  // score, d_result
  };
  std::string text;
  for (uint32_t number : needed_nodes(graph, wanted)) {
    const Node& node = graph.nodes()[number];
    std::string names[3];
    for (size_t i = 0; i < node.inputs.size(); ++i) names[i] = name(node.inputs[i]);
    Op op = node.op;
    if (const auto inverse = op == Op::divide ? inverse_of(graph, node.inputs[1]) : std::nullopt) {
      op = Op::multiply;
      names[1] = constant_text(*inverse, DType::f32);
    }
    text += fmt::format("const {} v{} = {}; ", number_type(node.outputs[0].dtype), number,
                        fmt::format(fmt::runtime(fused_op(op).text), names[0], names[1], names[2]));
  }
  return text + fmt::format("return {};", name(wanted));
}

}  // namespace

std::string score_value_text(const ScoreFunction& function, std::span<const TensorView> operands) {
  return body(function, function.value, function.value.outputs()[0].value, operands);
}

std::string score_gradient_text(const ScoreFunction& function,
                                std::span<const TensorView> operands) {
  return body(function, function.gradient, score_gradient(function), operands);
}

std::string operand_gradient_text(const ScoreFunction& function,
                                  std::span<const TensorView> operands, int operand) {
  return body(function, function.gradient, *operand_gradient(function, operand), operands);
}

std::string score_visible_text(const ScoreFunction& function,
                               std::span<const TensorView> operands) {
  std::string text;
  for (const auto& [condition, wanted] : score_conditions(function))
    text += fmt::format("{}{}[&]() -> bool {{ {} }}()", text.empty() ? "return " : " && ",
                        wanted ? "" : "!", body(function, function.value, condition, operands));
  return text + ";";
}

std::array<bool, 2> score_visible_axes(const ScoreFunction& function,
                                       std::span<const TensorView> operands) {
  std::array<bool, 2> differs = {};
  for (const ScoreCondition& each : score_conditions(function))
    for (size_t axis = 0; axis < differs.size(); ++axis) {
      const auto may_differ = [&](size_t input) {
        return input < operands.size()
                   ? operands[input].shape[static_cast<int>(axis)] > 1
                   : function.positions[input - operands.size()] == static_cast<int>(axis);
      };
      for (size_t i = 0; i < operands.size() + function.positions.size(); ++i)
        if (may_differ(i) && reads_input(function, each.condition, i + 1)) differs[axis] = true;
    }
  return differs;
}

std::string operand_axes_text(const TensorView& operand) {
  constexpr const char* kAxes[] = {"batches", "heads", "queries", "keys"};
  std::string axes;
  for (int axis = 0; axis < 4; ++axis)
    if (operand.shape[axis] > 1)
      axes += fmt::format("{}along::{}", axes.empty() ? "" : " | ", kAxes[axis]);
  return axes.empty() ? "0" : axes;
}

FlashOperand flash_operand(const TensorView& view) {
  const auto step = [&](int axis) {
    return view.shape[axis] == 1 ? 0 : view.strides[axis] * info(view.dtype).size;
  };
  const auto short_step = [&](int axis) {
    if (step(axis) > INT32_MAX || step(axis) < INT32_MIN)
      throw Error(ErrorKind::unsupported,
                  fmt::format("an operand of a score function has neighbours {} bytes apart, too "
                              "far for the flash kernels",
                              step(axis)),
                  "make the tensor contiguous");
    return static_cast<int>(step(axis));
  };
  return {view.data, step(0), step(1), short_step(2), short_step(3)};
}

}  // namespace ridgeline
