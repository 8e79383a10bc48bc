#include "plan/update_products.h"

#include <algorithm>

#include "plan/product_kernel.h"

namespace ridgeline {
namespace {

constexpr uint32_t kMostProducts = 64;  // bits of AdamWSpec::products
constexpr int64_t kUpdatedPack = 4;     // numbers of one access in fp32

class GradientFinder {
 public:
  GradientFinder(const Graph& graph, FusedGraph& fused)
      : graph_(graph), fused_(fused), groups_(fused.groups), readers_(graph.value_count(), 0) {
    for (const Group& group : groups_)
      for (Value storage : group.reads) ++readers_[graph.index(storage)];
    for (const Output& output : graph.outputs())
      ++readers_[graph.index(fused.layouts[graph.index(output.value)].storage)];
  }

  // The group of the product that is gradient `i` of the update, if the update can compute it.
  std::optional<size_t> product_of(size_t update, uint32_t i) const {
    const Node& node = graph_.nodes()[groups_[update].node];
    const auto& spec = std::get<AdamWSpec>(node.attributes.detail);
    const auto count = static_cast<uint32_t>(node.outputs.size()) / spec.results_of_each();
    const auto type = [&](uint32_t kind) -> const TensorType& {
      return graph_.type(node.inputs[spec.first_parameter() + kind * count + i]);
    };
    const Layout& gradient = layout(node.inputs[spec.first_parameter() + count + i]);
    const TensorType& result = graph_.type(gradient.storage);
    const auto group = std::ranges::find_if(groups_, [&](const Group& each) {
      return each.kind == GroupKind::library && graph_.nodes()[each.node].op == Op::matmul &&
             each.writes == std::vector{gradient.storage};
    });
    if (i >= kMostProducts || group == groups_.end() || group->epilogue || group->into ||
        readers_[graph_.index(gradient.storage)] != 1 || !is_16_bit(result.dtype) ||
        type(0) != TensorType{DType::f32, result.shape} ||
        result.shape.back() % kUpdatedPack != 0 || (spec.copied && type(4).dtype != result.dtype))
      return std::nullopt;
    const auto product = product_matrices(graph_, fused_.layouts, group->node);
    const auto number = static_cast<size_t>(group - groups_.begin());
    if (!product || number > update || is_written_between(*product, number, update))
      return std::nullopt;
    return number;
  }

  ProductSize size_of(size_t product) const {
    const Node& node = graph_.nodes()[groups_[product].node];
    const Shape& shape = node.outputs[0].shape;
    return {shape[0], shape[1], graph_.type(node.inputs[0]).shape[1]};
  }

 private:
  const Layout& layout(Value value) const { return fused_.layouts[graph_.index(value)]; }

  bool is_written_between(const ProductMatrices& product, size_t first, size_t last) const {
    for (size_t i = first + 1; i < last; ++i)
      for (Value storage : groups_[i].writes)
        if (storage == product.left.storage || storage == product.right.storage) return true;
    return false;
  }

  const Graph& graph_;
  const FusedGraph& fused_;
  const std::vector<Group>& groups_;
  std::vector<uint32_t> readers_;  // groups that read a storage, and outputs
};

}  // namespace

void take_update_products(const Graph& graph, FusedGraph& fused,
                          const ChooseUpdateProducts& choose) {
  if (!choose) return;
  const GradientFinder gradients(graph, fused);
  std::vector<uint32_t> taken_by(fused.groups.size(), RefusalNote::kNoGroup);
  for (uint32_t number = 0; number < fused.groups.size(); ++number) {
    Group& update = fused.groups[number];
    const Node& node = graph.nodes()[update.node];
    if (update.kind != GroupKind::library || node.op != Op::adamw_update) continue;
    const auto& spec = std::get<AdamWSpec>(node.attributes.detail);
    const auto count = static_cast<uint32_t>(node.outputs.size()) / spec.results_of_each();
    std::vector<std::optional<size_t>> products(count);
    std::vector<ProductSize> sizes;
    for (uint32_t i = 0; i < count; ++i)
      if ((products[i] = gradients.product_of(number, i)))
        sizes.push_back(gradients.size_of(*products[i]));
    if (sizes.empty() || !choose(sizes)) continue;
    update.products.assign(count, Group::kNoProduct);
    for (uint32_t i = 0; i < count; ++i) {
      if (!products[i]) continue;
      const Group& product = fused.groups[*products[i]];
      update.products[i] = product.node;
      taken_by[*products[i]] = number;
      std::erase(update.reads, product.writes[0]);
      for (Value storage : product.reads) add_once(update.reads, storage);
    }
  }
  std::vector<uint32_t> kept;
  for (uint32_t number = 0; number < taken_by.size(); ++number)
    if (taken_by[number] == RefusalNote::kNoGroup) kept.push_back(number);
  fused.keep(kept, taken_by);
}

Node update_node(const Graph& graph, const Group& group) {
  Node update = graph.nodes()[group.node];
  auto& spec = std::get<AdamWSpec>(update.attributes.detail);
  const size_t first_gradient = spec.first_parameter() + group.products.size();
  for (size_t i = 0; i < group.products.size(); ++i) {
    if (group.products[i] == Group::kNoProduct) continue;
    const Node& product = graph.nodes()[group.products[i]];
    spec.products |= uint64_t{1} << i;
    update.inputs[first_gradient + i] = product.inputs[0];
    update.inputs.push_back(product.inputs[1]);
  }
  return update;
}

}  // namespace ridgeline
