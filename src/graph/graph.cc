#include "graph/graph.h"

#include <fmt/format.h>

#include "base/error.h"

namespace ridgeline {
namespace {

// Two nodes with the same text compute the same values. Doubles print exactly ({:a}).
std::string node_key(Op op, std::span<const Value> inputs, const Attributes& attributes,
                     std::span<const TensorType> outputs) {
  std::string key = fmt::format("{}", static_cast<int>(op));
  for (Value input : inputs) key += fmt::format(" {}.{}", input.node, input.output);
  Node probe;
  probe.op = op;
  probe.attributes = attributes;
  key += '|' + attributes_text(probe);
  for (const TensorType& type : outputs) key += '|' + to_string(type);
  return key;
}

}  // namespace

std::optional<uint32_t> updated_input(const Node& node, uint32_t output) {
  if (!is_update(node.op)) return std::nullopt;
  if (node.op != Op::adamw_update) return 0;
  const auto& spec = std::get<AdamWSpec>(node.attributes.detail);
  const auto count = static_cast<uint32_t>(node.outputs.size()) / spec.results_of_each();
  const uint32_t kind = output / count;  // parameters, first moments, second moments, copies
  return spec.first_parameter() + (kind == 0 ? 0 : kind + 1) * count + output % count;
}

Bytes byte_size(const TensorType& type) {
  return Bytes{element_count(type.shape) * info(type.dtype).size};
}

std::string to_string(const TensorType& type) {
  return std::string(info(type.dtype).name) + to_string(type.shape);
}

Value Graph::add(Op op, std::vector<Value> inputs, Attributes attributes) {
  std::vector<TensorType> input_types;
  for (Value input : inputs) {
    if (input.node >= nodes_.size() || input.output >= nodes_[input.node].outputs.size())
      throw Error(ErrorKind::internal,
                  fmt::format("{} reads a value that does not exist", info(op).name));
    input_types.push_back(type(input));
  }
  std::vector<TensorType> outputs = infer_types(op, input_types, attributes);
  const auto number = static_cast<uint32_t>(nodes_.size());
  const auto [entry, is_new] =
      known_.try_emplace(node_key(op, inputs, attributes, outputs), number);
  if (!is_new) return Value{entry->second, 0};

  Node node{.op = op,
            .inputs = std::move(inputs),
            .attributes = std::move(attributes),
            .outputs = std::move(outputs),
            .name = {},
            .scope = scope_,
            .first_value = value_count_};
  value_count_ += static_cast<uint32_t>(node.outputs.size());
  nodes_.push_back(std::move(node));
  return Value{number, 0};
}

Value Graph::input(InputInfo input, TensorType type) {
  std::string name = input.name;
  for (const Node& node : nodes_)
    if (node.op == Op::input && node.name == name)
      throw Error(ErrorKind::usage, fmt::format("the graph already has an input '{}'", name));
  const Value value = add(Op::input, {}, {std::move(input), Target{type}});
  set_name(value, std::move(name));
  return value;
}

Value Graph::constant(double value, DType dtype) {
  return add(Op::constant, {}, {Scalar{value}, Target{{dtype, {}}}});
}

void Graph::set_name(Value value, std::string name) {
  nodes_[value.node].name = std::move(name);
}

uint32_t Graph::scope_number(std::string_view path) {
  const auto [entry, is_new] =
      scope_numbers_.try_emplace(std::string(path), static_cast<uint32_t>(scopes_.size()));
  if (is_new) scopes_.emplace_back(path);
  return entry->second;
}

void Graph::enter_scope(std::string_view path) {
  scope_ = scope_number(path);
}

void Graph::set_scope(Value value, std::string_view path) {
  nodes_[value.node].scope = scope_number(path);
}

void Graph::mark_output(std::string name, Value value) {
  outputs_.push_back({std::move(name), value});
}

void Graph::begin_stage(std::string name) {
  const auto here = static_cast<uint32_t>(nodes_.size());
  if (stages_.empty()) stages_.push_back({"forward", 0, here});
  stages_.push_back({std::move(name), here, here});
}

std::vector<Stage> Graph::stages() const {
  std::vector<Stage> stages = stages_;
  if (stages.empty()) stages.push_back({"forward", 0, 0});
  for (size_t i = 0; i + 1 < stages.size(); ++i) stages[i].end = stages[i + 1].begin;
  stages.back().end = static_cast<uint32_t>(nodes_.size());
  return stages;
}

uint32_t Graph::stage_of(uint32_t node) const {
  uint32_t stage = 0;
  while (stage + 1 < stages_.size() && stages_[stage + 1].begin <= node) ++stage;
  return stage;
}

std::vector<Value> Graph::inputs() const {
  std::vector<Value> found;
  for (uint32_t number = 0; number < nodes_.size(); ++number)
    if (nodes_[number].op == Op::input) found.push_back({number, 0});
  return found;
}

std::string Graph::name(Value value) const {
  const Node& source = node(value);
  std::string text =
      source.name.empty() ? fmt::format("{}_{}", info(source.op).name, value.node) : source.name;
  if (source.outputs.size() > 1) text += fmt::format(".{}", value.output);
  return text;
}

}  // namespace ridgeline
