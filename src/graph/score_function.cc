#include "graph/score_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace ridgeline {
namespace {

std::optional<Value> output_named(const Graph& graph, const std::string& name) {
  for (const Output& output : graph.outputs())
    if (output.name == name) return output.value;
  return std::nullopt;
}

// What `value` is a multiple of the gradient of f by.
std::optional<double> multiple_of_d_result(const Graph& graph, Value value) {
  const Node& node = graph.node(value);
  if (node.op == Op::input) return node.name == "d_result" ? std::optional(1.0) : std::nullopt;
  if (node.op != Op::multiply) return std::nullopt;
  for (size_t i : {0u, 1u}) {
    const Node& other = graph.node(node.inputs[1 - i]);
    if (other.op != Op::constant) continue;
    if (const auto multiple = multiple_of_d_result(graph, node.inputs[i]))
      return *multiple * std::get<Scalar>(other.attributes.detail).value;
  }
  return std::nullopt;
}

// Whether `value` is computed from `input`.
bool reads(const Graph& graph, Value value, Value input) {
  return value == input || std::ranges::any_of(needed_nodes(graph, value), [&](uint32_t number) {
           return std::ranges::count(graph.nodes()[number].inputs, input) > 0;
         });
}

}  // namespace

std::string ScoreFunction::text() const {
  const auto name = [&](Value at) {
    const Node& node = value.node(at);
    if (node.op == Op::input) return node.name;
    if (node.op == Op::constant)
      return fmt::format("{}", std::get<Scalar>(node.attributes.detail).value);
    return fmt::format("v{}", at.node);
  };
  std::string result;
  for (uint32_t number : needed_nodes(value, value.outputs()[0].value)) {
    const Node& node = value.nodes()[number];
    std::string arguments;
    for (Value input : node.inputs) arguments += (arguments.empty() ? "" : ", ") + name(input);
    result += fmt::format("{}v{} = {}({})", result.empty() ? "" : "; ", number, info(node.op).name,
                          arguments);
  }
  return result;
}

size_t operand_count(const ScoreFunction& function) {
  return function.value.inputs().size() - 1 - function.positions.size();
}

Value score_gradient(const ScoreFunction& function) {
  const auto found = output_named(function.gradient, "d_score");
  if (!found) throw Error(ErrorKind::internal, "a function of scores without its gradient");
  return *found;
}

std::optional<Value> operand_gradient(const ScoreFunction& function, int i) {
  return output_named(function.gradient, fmt::format("d_operand{}", i));
}

std::optional<double> constant_score_gradient(const ScoreFunction& function) {
  return multiple_of_d_result(function.gradient, score_gradient(function));
}

bool operand_gradient_reads_score(const ScoreFunction& function, int i) {
  const Graph& graph = function.gradient;
  return reads(graph, *operand_gradient(function, i), graph.inputs()[0]);
}

std::optional<double> constant_operand_gradient(const ScoreFunction& function, int i) {
  return multiple_of_d_result(function.gradient, *operand_gradient(function, i));
}

bool reads_input(const ScoreFunction& function, Value value, size_t number) {
  return reads(function.value, value, function.value.inputs()[number]);
}

std::vector<ScoreCondition> score_conditions(const ScoreFunction& function) {
  const Graph& graph = function.value;
  const auto is_hidden = [&](Value value) {
    const Node& node = graph.node(value);
    return node.op == Op::constant && std::get<Scalar>(node.attributes.detail).value ==
                                          -std::numeric_limits<double>::infinity();
  };
  std::vector<ScoreCondition> found;
  Value value = graph.outputs()[0].value;
  while (graph.node(value).op == Op::where) {
    const std::vector<Value>& inputs = graph.node(value).inputs;  // condition, then, else
    const bool wanted = is_hidden(inputs[2]);
    if (!wanted && !is_hidden(inputs[1])) break;
    if (!reads_input(function, inputs[0], 0)) found.push_back({inputs[0], wanted});
    value = inputs[wanted ? 1 : 2];
  }
  return found;
}

Shape operand_sums(const Shape& operand, int64_t queries, int64_t keys) {
  const auto sums = [](int64_t size, int64_t length) {
    return size == 1 ? (length + kScoreTile - 1) / kScoreTile : size;
  };
  return {operand[0], operand[1], sums(operand[2], queries), sums(operand[3], keys)};
}

Shape diagonal_sums(const Shape& operand) {
  return {operand[0], operand[1], 1, operand[2] + operand[3] - 1};
}

std::vector<uint32_t> needed_nodes(const Graph& graph, Value wanted) {
  std::vector<bool> needed(graph.nodes().size());
  needed[wanted.node] = true;
  for (uint32_t number = static_cast<uint32_t>(needed.size()); number-- > 0;)
    if (needed[number])
      for (Value input : graph.nodes()[number].inputs) needed[input.node] = true;
  std::vector<uint32_t> result;
  for (uint32_t number = 0; number < needed.size(); ++number)
    if (needed[number] && info(graph.nodes()[number].op).kind != OpClass::leaf)
      result.push_back(number);
  return result;
}

}  // namespace ridgeline
