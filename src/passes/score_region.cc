#include "passes/score_region.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "autodiff/gradient.h"
#include "passes/fold_constants.h"
#include "passes/simplify.h"

namespace ridgeline {
namespace {

constexpr int kMaxNodes = 64;  // of f: each is work for every score

bool is_pointwise(const Node& node) {
  return info(node.op).kind == OpClass::pointwise;
}

DType scalar_dtype(DType dtype) {
  return is_floating(dtype) ? DType::f32 : dtype;
}

// Adds the gradients of the score and of every operand that is a float, for a gradient of `result`
// of the graph.
Graph with_gradients(Graph graph, Value of) {
  const Tensor result(graph, of);
  std::vector<Tensor> sources;
  std::vector<std::string> names;
  for (Value value : graph.inputs()) {
    if (!is_floating(graph.type(value).dtype)) continue;
    sources.emplace_back(graph, value);
    names.push_back("d_" + graph.node(value).name);
  }
  const Cotangent cotangent{result, input(graph, "d_result", result.type())};
  const std::vector<Tensor> gradients = gradient({&cotangent, 1}, sources);
  for (size_t i = 0; i < names.size(); ++i) graph.mark_output(names[i], gradients[i].value());
  return graph;
}

// A value computed from d_result and constants alone.
bool depends_on_d_result_alone(const Graph& graph, Value value) {
  const auto may_read = [&](Value read) {
    const Node& node = graph.node(read);
    return node.op != Op::input || node.name == "d_result";
  };
  return may_read(value) && std::ranges::all_of(needed_nodes(graph, value), [&](uint32_t number) {
           return std::ranges::all_of(graph.nodes()[number].inputs, may_read);
         });
}

// where(condition, x, -infinity) has no weight and so no gradient where the condition is false: the
// gradients are those of x without the condition, if they are finite for all scores.
Graph gradients_of(const Graph& value) {
  const auto hides = [&](Value at) {
    const Node& node = value.node(at);
    return node.op == Op::where &&
           constant_value(value, node.inputs[2]) == -std::numeric_limits<double>::infinity();
  };
  const Value result = value.outputs()[0].value;
  Value visible = result;
  while (hides(visible)) visible = value.node(visible).inputs[1];
  Graph graph = simplify(with_gradients(value, visible));
  const auto is_finite = [&](const Output& output) {
    return depends_on_d_result_alone(graph, output.value);
  };
  if (visible == result || std::ranges::all_of(graph.outputs().subspan(1), is_finite)) return graph;
  return simplify(with_gradients(value, result));
}

class Reader {
 public:
  Reader(const Graph& graph, Value result, std::span<const uint32_t> uses)
      : graph_(graph), result_(result), uses_(uses), scores_(graph.type(result).shape) {}

  ScoreRegion read(const std::function<bool(const Node&)>& accepts) {
    const auto product = find_product(result_, accepts);
    if (!product) return {.refusal = "no product of queries and keys leads to it"};
    product_ = *product;
    numbers_[key(product_)] = {product_, value_.input({.name = "score"}, {DType::f32, {}})};
    depends_[key(product_)] = true;
    const Value result = scalar_of(result_);
    if (refusal_.empty()) check_readers();
    if (refusal_.empty() && operands_.size() > kMaxScoreOperands)
      refusal_ = fmt::format("{} tensors enter between the products, the kernels take up to {}",
                             operands_.size(), kMaxScoreOperands);
    if (!refusal_.empty()) return {.refusal = refusal_};
    value_.mark_output("result", result);
    return {product_, make_score_function(value_), operands_, {}};
  }

 private:
  uint32_t key(Value value) const { return graph_.index(value); }

  Value refuse(std::string reason) {
    if (refusal_.empty()) refusal_ = std::move(reason);
    return {};
  }

  // The first matmul of the scores' shape above which all is pointwise.
  std::optional<Value> find_product(Value value, const std::function<bool(const Node&)>& accepts) {
    if (graph_.type(value).shape != scores_ || !visited_.insert(key(value)).second)
      return std::nullopt;
    const Node& node = graph_.node(value);
    if (node.op == Op::matmul && accepts(node)) return value;
    if (!is_pointwise(node)) return std::nullopt;
    for (Value input : node.inputs)
      if (const auto found = find_product(input, accepts)) return found;
    return std::nullopt;
  }

  // Whether a value is computed from scores by pointwise ops alone.
  bool depends(Value value) {
    if (const auto known = depends_.find(key(value)); known != depends_.end()) return known->second;
    const Node& node = graph_.node(value);
    bool any = false;
    if (is_pointwise(node))
      for (Value input : node.inputs) any = depends(input) || any;
    return depends_[key(value)] = any;
  }

  bool spans_scores(const Shape& shape) const {
    return shape.rank() >= 2 && shape.back(0) == scores_.back(0) &&
           shape.back(1) == scores_.back(1) && scores_.back(0) > 1 && scores_.back(1) > 1;
  }

  // The value as a single number of f.
  Value scalar_of(Value value) {
    if (!refusal_.empty()) return {};
    if (const auto known = numbers_.find(key(value)); known != numbers_.end())
      return known->second.scalar;
    if (++count_ > kMaxNodes)
      return refuse(fmt::format("more than {} operations lie between the products", kMaxNodes));
    const Value scalar = new_scalar(value);
    numbers_[key(value)] = {value, scalar};
    return scalar;
  }

  Value new_scalar(Value value) {
    const Node& node = graph_.node(value);
    const TensorType& type = graph_.type(value);
    if (const auto constant = constant_value(graph_, value))
      return value_.constant(*constant, scalar_dtype(type.dtype));
    if (depends(value)) {
      if (type.shape != scores_) return refuse("the scores are broadcast between the products");
      return pointwise(node, type);
    }
    if (node.op == Op::expand) return scalar_of(node.inputs[0]);
    if (is_pointwise(node) && spans_scores(type.shape)) return pointwise(node, type);
    operands_.push_back(value);
    return value_.input({.name = fmt::format("operand{}", operands_.size() - 1)},
                        {scalar_dtype(type.dtype), {}});
  }

  Value pointwise(const Node& node, const TensorType& type) {
    std::vector<Value> inputs;
    for (Value input : node.inputs) inputs.push_back(scalar_of(input));
    if (!refusal_.empty()) return {};
    const DType to = scalar_dtype(type.dtype);
    if (node.op != Op::cast) return value_.add(node.op, std::move(inputs), {});
    const DType from = value_.type(inputs[0]).dtype;
    if (from == to) return inputs[0];
    // Kernels hold integers and booleans as fp32 here, in which nothing would be cut off.
    if (!is_floating(to))
      return refuse(
          fmt::format("{} becomes {} between the products", info(from).name, info(to).name));
    return value_.add(Op::cast, std::move(inputs), {{}, Target{{to, {}}}});
  }

  // What depends on scores would have to be stored for a reader outside.
  void check_readers() {
    std::map<uint32_t, uint32_t> reads;  // inside of f, by value
    ++reads[key(result_)];               // by the softmax
    for (const auto& [index, number] : numbers_) {
      if (!depends_[index] || number.source == product_) continue;
      for (Value input : graph_.node(number.source).inputs) ++reads[key(input)];
    }
    for (const auto& [index, number] : numbers_)
      if (depends_[index] && reads[index] != uses_[index])
        refuse(fmt::format("{} is also read elsewhere", graph_.name(number.source)));
  }

  const Graph& graph_;
  const Value result_;
  std::span<const uint32_t> uses_;
  const Shape scores_;
  Value product_;
  Graph value_;
  struct Number {
    Value source, scalar;  // a value of the graph, and what it is in f
  };
  std::map<uint32_t, Number> numbers_;  // by Graph::index of the source
  std::map<uint32_t, bool> depends_;    // likewise: whether it is computed from scores
  std::set<uint32_t> visited_;          // on the search for the product
  int count_ = 0;                       // of numbers met
  std::vector<Value> operands_;
  std::string refusal_;
};

}  // namespace

std::shared_ptr<const ScoreFunction> make_score_function(const Graph& value,
                                                         std::vector<int> positions) {
  auto function = std::make_shared<ScoreFunction>();
  function->value = simplify(value);
  function->gradient = gradients_of(value);
  function->positions = std::move(positions);
  return function;
}

ScoreRegion find_score_function(const Graph& graph, Value result, std::span<const uint32_t> uses,
                                const std::function<bool(const Node&)>& accepts) {
  return Reader(graph, result, uses).read(accepts);
}

}  // namespace ridgeline
