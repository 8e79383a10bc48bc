#include "plan/group_cost.h"

#include <algorithm>

namespace ridgeline {
namespace {

// Distinct elements that a walk over the domain touches.
double touched_bytes(const Shape& domain, const FusedOperand& operand) {
  if (operand.is_position) return 0;
  double count = 1;
  for (int axis = 0; axis < domain.rank(); ++axis)
    if (operand.strides[axis] != 0) count *= static_cast<double>(domain[axis]);
  return count * info(operand.dtype).size;
}

Cost fused_cost(const FusedKernel& kernel) {
  Cost cost;
  for (const FusedOperand& input : kernel.inputs)
    if (!kernel.is_computed(input)) cost.bytes += touched_bytes(kernel.domain, input);
  for (const FusedResult& result : kernel.results)
    cost.bytes += touched_bytes(kernel.domain, result.to);
  std::vector<double> elements;  // of each step
  const auto all = static_cast<double>(kernel.rows() * kernel.columns());
  for (const FusedStep& step : kernel.steps) {
    double count = 1;
    if (step.kind == FusedStep::Kind::load)
      count = touched_bytes(kernel.domain, kernel.inputs[step.operand]) / info(step.dtype).size;
    if (step.kind == FusedStep::Kind::compute)
      for (uint32_t input : step.inputs) count = std::max(count, elements[input]);
    if (step.kind == FusedStep::Kind::fold) {
      cost.flops += all;
      count = static_cast<double>(kernel.kind == FusedKind::row ? kernel.rows() : kernel.columns());
    }
    if (step.kind == FusedStep::Kind::compute)
      cost.flops += count * pointwise_row(step.op)->says.flops;
    elements.push_back(count);
  }
  if (const auto& product = kernel.product) {
    const auto matrix = [&](int64_t rows, int64_t columns) {
      return static_cast<double>(rows * columns * info(product->dtype).size);
    };
    cost.bytes += matrix(product->rows, product->depth) + matrix(product->depth, product->columns);
    cost.macs +=
        static_cast<double>(product->rows) * static_cast<double>(product->columns * product->depth);
    cost.flops += 2 * static_cast<double>(product->rows) *
                  static_cast<double>(product->columns * product->depth);
  }
  return cost;
}

}  // namespace

Cost group_cost(const Graph& graph, const Group& group, const std::vector<Cost>& nodes) {
  if (group.kind != GroupKind::library) return fused_cost(group.kernel);
  Cost cost = nodes.empty() ? Cost{} : nodes[group.node];
  for (uint32_t product : group.products)
    if (product != Group::kNoProduct) {
      const auto gradient = static_cast<double>(byte_size(graph.type({product, 0})).count);
      cost += nodes[product];
      cost.bytes -= 2 * gradient;  // neither written nor read
    }
  if (!group.into) return cost;
  const Node& product = graph.nodes()[group.node];
  const TensorType& result = graph.type(*group.into);
  cost.bytes += static_cast<double>(byte_size(result).count - byte_size(product.outputs[0]).count);
  if (!group.epilogue) return cost;
  const Epilogue& epilogue = *group.epilogue;
  const auto elements = static_cast<double>(element_count(result.shape));
  const int size = info(result.dtype).size;
  if (epilogue.addend) cost.bytes += elements * size;
  if (epilogue.bias) cost.bytes += static_cast<double>(product.outputs[0].shape.back() * size);
  cost.flops += elements * ((epilogue.scale != 1) + epilogue.addend.has_value() +
                            epilogue.bias.has_value() + (epilogue.activation != Activation::none));
  return cost;
}

}  // namespace ridgeline
