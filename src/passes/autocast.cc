#include "passes/autocast.h"

#include <functional>
#include <optional>
#include <unordered_map>

#include "passes/rewrite.h"

namespace ridgeline {
namespace {

enum class Precision : uint8_t {
  as_it_comes,  // in the dtype of its operand
  narrow,       // 16 bits
  wide,         // fp32
  widest,       // all operands in the widest dtype among them
  as_written,   // operands in the dtypes that the graph gave them
};

constexpr Precision of_pointwise(const PointwiseRow& row) {
  if (row.inputs() > 1) return Precision::widest;
  return row.says.in_fp32 ? Precision::wide : Precision::as_it_comes;
}

constexpr OpTable<Precision> kPrecision = {
    of_pointwise,
    {
        {Op::input, Precision::as_it_comes},
        {Op::constant, Precision::as_it_comes},
        {Op::iota, Precision::as_it_comes},
        {Op::softmax, Precision::wide},
        {Op::softmax_gradient, Precision::wide},
        {Op::log_softmax, Precision::wide},
        {Op::log_softmax_gradient, Precision::wide},
        {Op::sum, Precision::wide},
        {Op::mean, Precision::as_it_comes},
        {Op::max, Precision::as_it_comes},
        {Op::matmul, Precision::narrow},
        {Op::attention, Precision::narrow},
        {Op::attention_gradient, Precision::as_written},
        {Op::gather, Precision::as_it_comes},
        {Op::scatter_add, Precision::as_it_comes},
        {Op::pick, Precision::as_it_comes},
        {Op::place, Precision::as_it_comes},
        {Op::argmax, Precision::as_it_comes},
        {Op::sum_of_squares, Precision::as_written},
        {Op::adamw_update, Precision::as_written},
        {Op::loss_scale_update, Precision::as_written},
        {Op::append, Precision::as_written},
        {Op::advance, Precision::as_written},
        {Op::ring_positions, Precision::as_written},
        {Op::reshape, Precision::as_it_comes},
        {Op::permute, Precision::as_it_comes},
        {Op::expand, Precision::as_it_comes},
        {Op::slice, Precision::as_it_comes},
        {Op::concat, Precision::widest},
        {Op::pad, Precision::as_it_comes},
        {Op::all_reduce, Precision::as_written},
        {Op::reduce_scatter, Precision::as_written},
        {Op::all_gather, Precision::as_written},
    },
};

// A cache has a dtype of its own, which the steps before have written.
Precision precision_of(const Node& node) {
  const auto* spec = std::get_if<AttentionSpec>(&node.attributes.detail);
  return spec != nullptr && spec->cached ? Precision::as_written : kPrecision[node.op];
}

bool is_scalar_constant(const Tensor& x) {
  return x.graph().node(x.value()).op == Op::constant && x.shape().rank() == 0;
}

// The same elements seen otherwise, so that a cast may come before as well as after. A slice is
// left out: what it does not show need not be cast.
bool moves_behind_cast(Op op) {
  return op == Op::permute || op == Op::reshape || op == Op::expand;
}

DType wider(DType a, DType b) {
  if (is_16_bit(a) && is_16_bit(b)) return a == b ? a : DType::f32;
  return is_16_bit(a) ? b : a;
}

// A scalar constant decides only where there is nothing else; its value is then given anew.
void widen(std::vector<Tensor>& inputs) {
  std::optional<DType> widest;
  for (bool constants : {false, true}) {
    if (widest) break;
    for (const Tensor& input : inputs)
      if (is_floating(input.dtype()) && is_scalar_constant(input) == constants)
        widest = widest ? wider(*widest, input.dtype()) : input.dtype();
  }
  for (Tensor& input : inputs) {
    if (!is_floating(input.dtype())) continue;
    Graph& graph = input.graph();
    if (is_scalar_constant(input)) {
      const auto& scalar = std::get<Scalar>(graph.node(input.value()).attributes.detail);
      input = Tensor(graph, graph.constant(scalar.value, *widest));
    } else {
      input = cast(input, *widest);
    }
  }
}

class Autocast {
 public:
  explicit Autocast(DType narrow) : narrow_(narrow) {}
  std::vector<Value> operator()(const Site& site) {
    const Node& node = site.node;
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < site.inputs.size(); ++i) inputs.push_back(site.input(i));
    switch (precision_of(node)) {
      case Precision::as_it_comes:
        if (node.op != Op::cast) return {};
        return {cast(inputs[0], node.outputs[0].dtype).value()};
      case Precision::narrow:
        for (Tensor& input : inputs) input = narrowed(input);
        break;
      case Precision::wide:
        for (Tensor& input : inputs)
          if (is_16_bit(input.dtype())) input = cast(input, DType::f32);
        break;
      case Precision::widest:
        widen(inputs);
        break;
      case Precision::as_written:
        for (size_t i = 0; i < inputs.size(); ++i)
          inputs[i] = cast(inputs[i], site.source.type(node.inputs[i]).dtype);
        break;
    }
    std::vector<Value> values;
    for (const Tensor& input : inputs) values.push_back(input.value());
    return results_of(site, std::move(values));
  }

 private:
  // Casts what lies under permutes and reshapes: the copy then has the layout of the original, and
  // the gradient of a weight finds the weight as it lies.
  Tensor narrowed(const Tensor& x) {
    if (x.dtype() == narrow_) return x;
    Graph& graph = x.graph();
    const uint32_t index = graph.index(x.value());
    if (const auto found = narrowed_.find(index); found != narrowed_.end())
      return Tensor(graph, found->second);
    const Node node = graph.node(x.value());  // a copy: nodes move as the graph grows
    Tensor result;
    if (moves_behind_cast(node.op)) {
      const Tensor base = narrowed(Tensor(graph, node.inputs[0]));
      result = Tensor(graph, graph.add(node.op, {base.value()}, node.attributes));
    } else if (node.op == Op::cast && graph.type(node.inputs[0]).dtype == narrow_) {
      result = Tensor(graph, node.inputs[0]);
    } else {
      result = cast(x, narrow_);
    }
    narrowed_[index] = result.value();
    return result;
  }

  const DType narrow_;
  std::unordered_map<uint32_t, Value> narrowed_;  // by index in the target
};

}  // namespace

Graph autocast(const Graph& forward, DType narrow) {
  Autocast pass(narrow);
  return rewrite(forward, std::ref(pass), {.keep_dtypes = false});
}

}  // namespace ridgeline
