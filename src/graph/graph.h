// The one intermediate representation: append-only nodes in topological order, with static shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/units.h"
#include "graph/adamw_spec.h"
#include "graph/attention_spec.h"
#include "graph/dtype.h"
#include "graph/input_info.h"
#include "graph/loss_scale_spec.h"
#include "graph/op.h"
#include "graph/shape.h"

namespace ridgeline {

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};

Bytes byte_size(const TensorType& type);
std::string to_string(const TensorType& type);  // "fp32[8, 256, 64]"

// One result of one node.
struct Value {
  uint32_t node = 0;
  uint32_t output = 0;
  bool operator==(const Value&) const = default;
};

// What an op needs beyond its inputs; each op uses a fixed alternative (see infer.cc).
struct Scalar {
  double value = 0;
};
struct Axes {
  Dims axes;
};
struct Range {  // slice: [begin, end) of an axis; pad: zeros so that the input lands at [begin,
                // end)
  int axis = 0;
  int64_t begin = 0;
  int64_t end = 0;
};
struct RowCount {  // advance: how far; ring_positions: how many were appended at the position
  int64_t count = 0;
};
struct Again {};  // marks a pointwise node that recomputes the result of an equal node
struct Ranks {    // of a collective
  int count = 1;
  std::string purpose = {};  // "bucket 3": collectives with different purposes are not merged
};
struct Target {  // the type that an input, constant, iota, cast, reshape, expand, pad, scatter_add,
                 // place, ring_positions or all_gather results in
  TensorType type;
};

struct Attributes {
  std::variant<std::monostate, InputInfo, Scalar, Axes, Range, AttentionSpec, AdamWSpec, Again,
               LossScaleSpec, RowCount, Ranks>
      detail;
  Target target;  // read only by the ops named at Target
};

struct Node {
  Op op = Op::input;
  std::vector<Value> inputs;
  Attributes attributes;
  std::vector<TensorType> outputs;
  std::string name;          // given by the model ("scores"); may be empty
  uint32_t scope = 0;        // its part of the model; see Graph::scope_path
  uint32_t first_value = 0;  // dense number of output 0 among all values of the graph
};

// The input whose storage an output of an update shares; none: the output has separate memory.
std::optional<uint32_t> updated_input(const Node& node, uint32_t output);

// The number of ranks in a collective.
inline int rank_count(const Node& collective) {
  return std::get<Ranks>(collective.attributes.detail).count;
}

// A named run of consecutive nodes, such as "forward" or "backward".
struct Stage {
  std::string name;
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct Output {
  std::string name;
  Value value;
};

class Graph {
 public:
  // Appends a node, or returns an existing equal one. Throws a usage error when the inputs do not
  // fit the op.
  Value add(Op op, std::vector<Value> inputs, Attributes attributes = {});
  Value input(InputInfo input, TensorType type);  // throws a usage error if the name is taken
  Value constant(double value, DType dtype);

  void set_name(Value value, std::string name);
  // Nodes added from here on belong to this part of the model: "layers.3.attention.scores". Scopes
  // are for readers: they affect neither what nodes compute nor which of them are equal. An
  // existing node keeps its scope. Builders use ScopeGuard (scope.h).
  void enter_scope(std::string_view path);
  const std::string& current_scope() const { return scopes_[scope_]; }
  const std::string& scope_path(const Node& node) const { return scopes_[node.scope]; }
  void set_scope(Value value, std::string_view path);
  void mark_output(std::string name, Value value);
  // Everything added from here on belongs to the stage `name`; before the first call it is
  // "forward".
  void begin_stage(std::string name);

  std::span<const Node> nodes() const { return nodes_; }
  const Node& node(Value value) const { return nodes_[value.node]; }
  const TensorType& type(Value value) const { return nodes_[value.node].outputs[value.output]; }
  std::span<const Output> outputs() const { return outputs_; }
  std::vector<Stage> stages() const;
  // The number of the stage that a node belongs to.
  uint32_t stage_of(uint32_t node) const;

  // Dense numbering of values, for tables indexed by value.
  uint32_t index(Value value) const { return nodes_[value.node].first_value + value.output; }
  uint32_t value_count() const { return value_count_; }
  std::vector<Value> inputs() const;
  const InputInfo& input_info(Value input) const {
    return std::get<InputInfo>(node(input).attributes.detail);
  }
  // The given name, or op and number: "matmul_12".
  std::string name(Value value) const;

 private:
  uint32_t scope_number(std::string_view path);

  std::vector<Node> nodes_;
  std::vector<std::string> scopes_ = {""};
  std::unordered_map<std::string, uint32_t> scope_numbers_ = {{"", 0}};
  uint32_t scope_ = 0;  // of newly added nodes
  std::vector<Output> outputs_;
  std::vector<Stage> stages_;
  std::unordered_map<std::string, uint32_t> known_;  // node text -> node, for hash-consing
  uint32_t value_count_ = 0;
};

// The types of a node's results; throws a usage error that names the op and the types it got.
std::vector<TensorType> infer_types(Op op, std::span<const TensorType> inputs,
                                    const Attributes& attributes);

// One line per node, in order: "%3 scores = matmul(%0, %2) : fp32[8, 256, 256]".
std::string to_text(const Graph& graph);
std::string attributes_text(const Node& node);

// Throws an internal error when an invariant is broken: order, types, names, stages, outputs, and
// that no value is read after its storage was updated.
void verify(const Graph& graph);

}  // namespace ridgeline
