#include "plan/product_kernel.h"

#include <algorithm>

#include "plan/draft.h"

namespace ridgeline {
namespace {

constexpr int64_t kNeighbours = 8;   // 16-bit elements of one access
constexpr int64_t kLeastRows = 128;  // less than a tile's are not worth one
constexpr int64_t kLeastDepth = 128;

bool is_whole(int64_t elements) {
  return elements % kNeighbours == 0;
}

// A matrix of the product; `depth_axis` is the one that is summed over.
std::optional<FusedMatrix> matrix_of(const Graph& graph, const std::vector<Layout>& layouts,
                                     Value value, int depth_axis) {
  const TensorType& type = graph.type(value);
  const Layout& layout = layouts[graph.index(value)];
  if (type.shape.rank() != 2 || graph.node(layout.storage).op == Op::constant) return std::nullopt;
  const int64_t along = layout.strides[depth_axis], across = layout.strides[1 - depth_axis];
  const bool is_deep = along == 1;
  const int64_t stride = is_deep ? across : along;
  const int64_t length = type.shape[is_deep ? depth_axis : 1 - depth_axis];  // of neighbours
  if ((!is_deep && across != 1) || stride < length || !is_whole(stride) || !is_whole(layout.offset))
    return std::nullopt;
  return FusedMatrix{layout.storage, layout.offset, stride, is_deep};
}

// Row by row over neighbours, each row at a whole access.
bool is_row_by_row(const FusedOperand& operand, const FusedWalk::Steps& steps) {
  return !operand.is_position && is_16_bit(operand.dtype) && steps.rows.size() == 1 &&
         steps.column == 1 && is_whole(steps.rows[0]) && is_whole(operand.offset);
}

}  // namespace

std::optional<ProductMatrices> product_matrices(const Graph& graph,
                                                const std::vector<Layout>& layouts,
                                                uint32_t product) {
  const Node& node = graph.nodes()[product];
  const Value result{product, 0};
  const TensorType& type = graph.type(result);
  if (type.shape.rank() != 2 || !is_16_bit(type.dtype) ||
      graph.type(node.inputs[0]).dtype != type.dtype || type.shape[0] < kLeastRows ||
      graph.type(node.inputs[0]).shape[1] < kLeastDepth)
    return std::nullopt;
  const auto left = matrix_of(graph, layouts, node.inputs[0], 1);
  const auto right = matrix_of(graph, layouts, node.inputs[1], 0);
  const Layout& layout = layouts[graph.index(result)];
  if (!left || !right || layout.storage != result ||
      layout.strides != contiguous_strides(type.shape))
    return std::nullopt;
  return ProductMatrices{*left, *right};
}

int64_t paired_column(const FusedKernel& kernel) {
  int64_t furthest = 0;
  for (const FusedOperand& input : kernel.inputs)
    if (kernel.is_computed(input)) furthest = std::max(furthest, input.offset);
  return furthest;
}

std::optional<Group> with_product(const Graph& graph, const std::vector<Layout>& layouts,
                                  const Group& product, const Group& reader, bool is_needed) {
  const Node& node = graph.nodes()[product.node];
  const Value result{product.node, 0};
  const TensorType& type = graph.type(result);
  if (product.epilogue || product.into || reader.kind != GroupKind::row ||
      reader.kernel.has_folds() || reader.kernel.product)
    return std::nullopt;
  const auto matrices = product_matrices(graph, layouts, product.node);
  if (!matrices) return std::nullopt;
  const auto& [left, right] = *matrices;

  Group fused = reader;
  FusedKernel& kernel = fused.kernel;
  kernel.product = {.result = result,
                    .dtype = type.dtype,
                    .left = left,
                    .right = right,
                    .rows = type.shape[0],
                    .columns = type.shape[1],
                    .depth = graph.type(node.inputs[0]).shape[1]};
  const FusedWalk walk = make_walk(kernel);
  const int64_t columns = kernel.product->columns;
  if (walk.sizes.size() != 1 || walk.rows() != kernel.product->rows || !is_whole(walk.columns) ||
      (walk.columns != columns && 2 * walk.columns != columns))
    return std::nullopt;
  const size_t steps = kernel.steps.size();
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const FusedOperand& input = kernel.inputs[i];
    if (!is_row_by_row(input, walk.inputs[i])) return std::nullopt;
    if (!kernel.is_computed(input)) continue;
    if (walk.inputs[i].rows[0] != columns || input.offset % walk.columns != 0) return std::nullopt;
  }
  for (size_t i = 0; i < kernel.results.size(); ++i)
    if (!is_row_by_row(kernel.results[i].to, walk.results[i]) ||
        kernel.results[i].to.storage == left.storage ||
        kernel.results[i].to.storage == right.storage)
      return std::nullopt;
  if (2 * walk.columns == columns && (paired_column(kernel) != walk.columns || !right.is_deep))
    return std::nullopt;
  if (is_needed) {
    int64_t written = 0;
    for (uint32_t step = 0; step < steps; ++step) {
      if (kernel.steps[step].kind != FusedStep::Kind::load) continue;
      const FusedOperand& input = kernel.inputs[kernel.steps[step].operand];
      if (!kernel.is_computed(input)) continue;
      kernel.results.push_back({step, input});
      written += walk.columns;
    }
    if (written != columns) return std::nullopt;  // halves that are read twice, or one of them
  }
  if (kernel.inputs.size() + kernel.results.size() > kMostProductOperands) return std::nullopt;
  complete(fused);
  return fused;
}

}  // namespace ridgeline
