#include "api/score_graph.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <optional>

#include "api/border.h"
#include "base/error.h"
#include "graph/tensor.h"
#include "passes/score_region.h"

namespace ridgeline {
namespace {

constexpr size_t kMostNodes = 128;  // each is work for every score

// What an op reads, and how many of it.
enum class Reads { nothing, numbers, alike, conditions, choice };
struct ScoreOp {
  int32_t code;
  const char* name;
  Reads reads;
  size_t inputs;
  Tensor (*build)(const Tensor& x, const Tensor& y);  // of numbers, of two alike, of conditions
};

Tensor no(const Tensor& x) {
  return equal(x, scalar(x, 0));
}

const ScoreOp kOps[] = {
    {RL_SCORE, "score", Reads::nothing, 0, nullptr},
    {RL_SCORE_CONSTANT, "constant", Reads::nothing, 0, nullptr},
    {RL_SCORE_BATCH, "batch", Reads::nothing, 0, nullptr},
    {RL_SCORE_HEAD, "head", Reads::nothing, 0, nullptr},
    {RL_SCORE_QUERY, "query", Reads::nothing, 0, nullptr},
    {RL_SCORE_KEY, "key", Reads::nothing, 0, nullptr},
    {RL_SCORE_OPERAND, "operand", Reads::nothing, 0, nullptr},
    {RL_SCORE_INT_OPERAND, "integer operand", Reads::nothing, 0, nullptr},
    {RL_SCORE_BOOL_OPERAND, "boolean operand", Reads::nothing, 0, nullptr},
#define RIDGELINE_ONE(code, name)                                                          \
  {                                                                                        \
    code, #name, Reads::numbers, 1, [](const Tensor& x, const Tensor&) { return name(x); } \
  }
#define RIDGELINE_TWO(code, name, reads)                                                      \
  {                                                                                           \
    code, #name, Reads::reads, 2, [](const Tensor& x, const Tensor& y) { return name(x, y); } \
  }
    RIDGELINE_ONE(RL_SCORE_NEGATE, negate),
    RIDGELINE_ONE(RL_SCORE_EXP, exp),
    RIDGELINE_ONE(RL_SCORE_LOG, log),
    RIDGELINE_ONE(RL_SCORE_SQRT, sqrt),
    RIDGELINE_ONE(RL_SCORE_RSQRT, rsqrt),
    RIDGELINE_ONE(RL_SCORE_SIN, sin),
    RIDGELINE_ONE(RL_SCORE_COS, cos),
    RIDGELINE_ONE(RL_SCORE_TANH, tanh),
    RIDGELINE_ONE(RL_SCORE_SIGMOID, sigmoid),
    {RL_SCORE_ABS, "abs", Reads::numbers, 1,
     [](const Tensor& x, const Tensor&) { return maximum(x, -x); }},
    RIDGELINE_TWO(RL_SCORE_ADD, add, numbers),
    RIDGELINE_TWO(RL_SCORE_SUBTRACT, subtract, numbers),
    RIDGELINE_TWO(RL_SCORE_MULTIPLY, multiply, numbers),
    RIDGELINE_TWO(RL_SCORE_DIVIDE, divide, numbers),
    RIDGELINE_TWO(RL_SCORE_MAXIMUM, maximum, numbers),
    {RL_SCORE_MINIMUM, "minimum", Reads::numbers, 2,
     [](const Tensor& x, const Tensor& y) { return -maximum(-x, -y); }},
    RIDGELINE_TWO(RL_SCORE_LESS, less, alike),
    RIDGELINE_TWO(RL_SCORE_LESS_EQUAL, less_equal, alike),
    RIDGELINE_TWO(RL_SCORE_EQUAL, equal, alike),
    {RL_SCORE_NOT_EQUAL, "not_equal", Reads::alike, 2,
     [](const Tensor& x, const Tensor& y) { return no(equal(x, y)); }},
    {RL_SCORE_GREATER, "greater", Reads::alike, 2,
     [](const Tensor& x, const Tensor& y) { return less(y, x); }},
    {RL_SCORE_GREATER_EQUAL, "greater_equal", Reads::alike, 2,
     [](const Tensor& x, const Tensor& y) { return less_equal(y, x); }},
    {RL_SCORE_AND, "and", Reads::conditions, 2,
     [](const Tensor& x, const Tensor& y) { return where(x, y, scalar(x, 0)); }},
    {RL_SCORE_OR, "or", Reads::conditions, 2,
     [](const Tensor& x, const Tensor& y) { return where(x, scalar(x, 1), y); }},
    {RL_SCORE_NOT, "not", Reads::conditions, 1,
     [](const Tensor& x, const Tensor&) { return no(x); }},
    {RL_SCORE_WHERE, "where", Reads::choice, 3, nullptr},
#undef RIDGELINE_ONE
#undef RIDGELINE_TWO
};

Error wrong(size_t node, const std::string& what, std::string next_step = {}) {
  return {ErrorKind::usage, fmt::format("node {} of the score function {}", node, what),
          std::move(next_step)};
}

class Reader {
 public:
  Reader(std::span<const rl_score_node> nodes, double scale) : nodes_(nodes), scale_(scale) {}

  ScoreGraph read() {
    if (nodes_.empty() || nodes_.size() > kMostNodes)
      throw Error(ErrorKind::usage, fmt::format("a score function has {} nodes", nodes_.size()),
                  fmt::format("use 1 to {}", kMostNodes));
    make_inputs();
    for (number_ = 0; number_ < nodes_.size(); ++number_) values_.push_back(next());
    const Tensor result = values_.back();
    if (!is_floating(result.dtype()))
      throw wrong(nodes_.size() - 1, "is the result, and no number",
                  "end with a number: where() makes one of a condition");
    graph_.mark_output("result", result.value());
    return {make_score_function(graph_, positions_), kinds_};
  }

 private:
  const ScoreOp& op_of(size_t number) const {
    for (const ScoreOp& op : kOps)
      if (op.code == nodes_[number].op) return op;
    throw wrong(number, fmt::format("has op {}", nodes_[number].op), "use a value of rl_score_op");
  }

  static OperandKind kind_of(int32_t op) {
    switch (op) {
      case RL_SCORE_OPERAND:
        return OperandKind::number;
      case RL_SCORE_INT_OPERAND:
        return OperandKind::integer;
      case RL_SCORE_BOOL_OPERAND:
        return OperandKind::condition;
      default:
        return OperandKind::unused;
    }
  }

  // The engine wants the score first, then operands by number, then positions.
  void make_inputs() {
    score_ = input(graph_, "score", {DType::f32, {}});
    std::optional<int> first_of_axis[4];
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const rl_score_node& node = nodes_[i];
      if (node.op >= RL_SCORE_BATCH && node.op <= RL_SCORE_KEY)
        first_of_axis[node.op - RL_SCORE_BATCH] = 0;
      const OperandKind kind = kind_of(node.op);
      if (kind == OperandKind::unused) continue;
      const int32_t number = node.inputs[0];
      if (number < 0 || number >= kMaxScoreOperands)
        throw wrong(i, fmt::format("reads operand {}", number),
                    fmt::format("operands are numbered from 0 to {}", kMaxScoreOperands - 1));
      kinds_.resize(std::max(kinds_.size(), static_cast<size_t>(number) + 1), OperandKind::unused);
      OperandKind& known = kinds_[static_cast<size_t>(number)];
      if (known != OperandKind::unused && known != kind)
        throw wrong(i, fmt::format("reads operand {} as another type than a node before", number));
      known = kind;
    }
    for (size_t i = 0; i < kinds_.size(); ++i)
      operands_.push_back(input(graph_, fmt::format("operand{}", i), {dtype_of(kinds_[i]), {}}));
    constexpr const char* kNames[] = {"batch", "head", "query", "key"};
    for (int axis = 0; axis < 4; ++axis) {
      if (!first_of_axis[axis]) continue;
      places_[axis] = input(graph_, kNames[axis], {DType::i32, {}});
      positions_.push_back(axis);
    }
  }

  static DType dtype_of(OperandKind kind) {
    return kind == OperandKind::integer     ? DType::i32
           : kind == OperandKind::condition ? DType::boolean
                                            : DType::f32;
  }

  Tensor next() {
    const ScoreOp& op = op_of(number_);
    const rl_score_node& node = nodes_[number_];
    if (op.reads == Reads::nothing) return leaf(node);
    Tensor inputs[3];
    for (size_t i = 0; i < op.inputs; ++i) inputs[i] = input_of(op, i);
    switch (op.reads) {
      case Reads::numbers:
        return op.build(as_number(inputs[0]), op.inputs > 1 ? as_number(inputs[1]) : Tensor());
      case Reads::alike:
        make_alike(op, inputs[0], inputs[1]);
        return op.build(inputs[0], inputs[1]);
      case Reads::conditions:
        for (size_t i = 0; i < op.inputs; ++i) expect_condition(op, inputs[i]);
        return op.build(inputs[0], inputs[1]);
      default:
        expect_condition(op, inputs[0]);
        make_alike(op, inputs[1], inputs[2]);
        return where(inputs[0], inputs[1], inputs[2]);
    }
  }

  Tensor leaf(const rl_score_node& node) {
    switch (node.op) {
      case RL_SCORE:
        return score_ * scale_;
      case RL_SCORE_CONSTANT:
        if (std::isnan(node.value)) throw wrong(number_, "is a constant that is no number");
        return Tensor(graph_, graph_.constant(static_cast<float>(node.value), DType::f32));
      case RL_SCORE_OPERAND:
      case RL_SCORE_INT_OPERAND:
      case RL_SCORE_BOOL_OPERAND:
        return operands_[static_cast<size_t>(node.inputs[0])];
      default:
        return places_[node.op - RL_SCORE_BATCH];
    }
  }

  Tensor input_of(const ScoreOp& op, size_t i) {
    const int32_t from = nodes_[number_].inputs[i];
    if (from < 0 || static_cast<size_t>(from) >= number_)
      throw wrong(number_, fmt::format("({}) reads node {}", op.name, from),
                  "a node reads nodes before it");
    return values_[static_cast<size_t>(from)];
  }

  Tensor as_number(const Tensor& x) const {
    return is_floating(x.dtype()) ? x : cast(x, DType::f32);
  }

  // Integers stay what they are beside integers, conditions beside conditions.
  void make_alike(const ScoreOp& op, Tensor& x, Tensor& y) const {
    if (x.dtype() == y.dtype()) return;
    if (x.dtype() == DType::boolean || y.dtype() == DType::boolean)
      throw wrong(number_, fmt::format("({}) reads a condition and a number", op.name),
                  "make the condition a number with where()");
    x = as_number(x);
    y = as_number(y);
  }

  void expect_condition(const ScoreOp& op, const Tensor& x) const {
    if (x.dtype() != DType::boolean)
      throw wrong(number_, fmt::format("({}) reads a number where it needs a condition", op.name),
                  "compare the number");
  }

  std::span<const rl_score_node> nodes_;
  double scale_;
  Graph graph_;
  Tensor score_;
  std::vector<OperandKind> kinds_;
  std::vector<Tensor> operands_;
  Tensor places_[4];
  std::vector<int> positions_;
  std::vector<Tensor> values_;
  size_t number_ = 0;
};

}  // namespace

ScoreGraph read_score_graph(std::span<const rl_score_node> nodes, double scale) {
  return Reader(nodes, scale).read();
}

}  // namespace ridgeline

extern "C" {

rl_status rl_score_function_create(const rl_score_node* nodes, size_t count,
                                   rl_score_function** function) {
  return ridgeline::guarded([&] {
    using ridgeline::Error;
    using ridgeline::ErrorKind;
    if (function == nullptr)
      throw Error(ErrorKind::usage, "function is null", "pass where the function is to be stored");
    *function = nullptr;
    if (nodes == nullptr) throw Error(ErrorKind::usage, "nodes is null", "pass the nodes");
    if (count > ridgeline::kMostNodes) ridgeline::read_score_graph({nodes, count}, 1);
    auto made = std::make_unique<rl_score_function>();
    made->nodes.resize(count);
    if (count > 0) std::memcpy(made->nodes.data(), nodes, count * sizeof *nodes);
    made->operands = ridgeline::read_score_graph(made->nodes, 1).operands;
    static std::atomic<uint64_t> next_id = 1;
    made->id = next_id++;
    *function = made.release();
  });
}

void rl_score_function_destroy(rl_score_function* function) {
  delete function;
}

}  // extern "C"
