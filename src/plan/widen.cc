#include "plan/widen.h"

namespace ridgeline {
namespace {

// The 16-bit storage that the group does nothing but cast as a whole.
std::optional<Value> cast_storage(const Graph& graph, const Group& group) {
  const FusedKernel& kernel = group.kernel;
  if (group.kind != GroupKind::row || kernel.inputs.size() != 1 || kernel.steps.size() != 2 ||
      kernel.results.size() != 1)
    return std::nullopt;
  const FusedOperand &from = kernel.inputs[0], &to = kernel.results[0].to;
  const bool is_cast = kernel.steps[0].kind == FusedStep::Kind::load &&
                       kernel.steps[1].kind == FusedStep::Kind::compute &&
                       kernel.steps[1].op == Op::cast && to.dtype == DType::f32 &&
                       is_16_bit(from.dtype);
  if (!is_cast || from.is_position || from.offset != 0 || to.offset != 0 ||
      from.strides != to.strides)
    return std::nullopt;
  const auto is_whole = [&](const FusedOperand& operand) {
    return element_count(graph.type(operand.storage).shape) == element_count(kernel.domain);
  };
  return is_whole(from) && is_whole(to) ? std::optional(from.storage) : std::nullopt;
}

// Whether the group that computes `narrow` is a product that could write what `cast` writes.
bool can_write(const Graph& graph, const FusedGraph& fused, const Group& product, Value narrow,
               const Group& cast) {
  const Value wide = cast.kernel.results[0].to.storage;
  return product.kind == GroupKind::library && product.node == narrow.node &&
         product.stage == cast.stage && graph.nodes()[product.node].op == Op::matmul &&
         graph.type(wide).shape == graph.type(narrow).shape &&
         fused.layouts[graph.index(narrow)].strides == fused.layouts[graph.index(wide)].strides;
}

// Storages of what ranks add, or of parts of it: a bucket is a concatenation, and micro-batches are
// added before. Sums over ranks have the bits of 16-bit products wherever their collective stands:
// where a cast writes into a bucket, or is in another stage, it cannot be removed.
std::vector<bool> communicated_storages(const Graph& graph, const FusedGraph& fused) {
  std::vector<bool> found(graph.value_count()), is_part(graph.value_count());
  for (auto number = static_cast<uint32_t>(graph.nodes().size()); number-- > 0;) {
    const Node& node = graph.nodes()[number];
    const bool passes_on = is_view(node.op) || node.op == Op::concat || node.op == Op::add;
    if (!is_collective(node.op) && !(passes_on && is_part[node.first_value])) continue;
    for (Value input : node.inputs) {
      is_part[graph.index(input)] = true;
      found[graph.index(fused.layouts[graph.index(input)].storage)] = true;
    }
  }
  return found;
}

}  // namespace

void widen_products(const Graph& graph, FusedGraph& fused) {
  std::vector<uint32_t> touched(graph.value_count());  // by how many groups, and as an output
  std::vector<uint32_t> writer(graph.value_count(), RefusalNote::kNoGroup);
  for (uint32_t number = 0; number < fused.groups.size(); ++number) {
    const Group& group = fused.groups[number];
    for (const auto* storages : {&group.reads, &group.writes})
      for (Value storage : *storages) ++touched[graph.index(storage)];
    for (Value storage : group.writes) writer[graph.index(storage)] = number;
  }
  for (const Output& output : graph.outputs())
    ++touched[graph.index(fused.layouts[graph.index(output.value)].storage)];

  const std::vector<bool> is_communicated = communicated_storages(graph, fused);
  std::vector<uint32_t> kept, gone_into(fused.groups.size(), RefusalNote::kNoGroup);
  for (uint32_t number = 0; number < fused.groups.size(); ++number) {
    const Group& group = fused.groups[number];
    const auto narrow = cast_storage(graph, group);
    const uint32_t from = narrow && touched[graph.index(*narrow)] == 2
                              ? writer[graph.index(*narrow)]
                              : RefusalNote::kNoGroup;
    if (from == RefusalNote::kNoGroup ||
        !can_write(graph, fused, fused.groups[from], *narrow, group) ||
        is_communicated[graph.index(group.kernel.results[0].to.storage)]) {
      kept.push_back(number);
      continue;
    }
    Group& product = fused.groups[from];
    product.into = group.kernel.results[0].to.storage;
    product.writes = {*product.into};
    gone_into[number] = from;
  }
  fused.keep(kept, gone_into);
}

}  // namespace ridgeline
