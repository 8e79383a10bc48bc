// Concatenations without a kernel: what computes a part writes it where it belongs.
#include <algorithm>

#include "plan/arena.h"
#include "plan/fuser.h"

namespace ridgeline {

// The value behind all views: a reshape that would copy need not, if the value can lie otherwise.
Value Fuser::source_of(Value part) const {
  while (is_view(graph_.node(part).op)) part = graph_.node(part).inputs[0];
  return part;
}

// Whether the part, behind views that move whole axes, is a value that nobody else reads.
bool Fuser::is_alone(Value part) const {
  Value value = part;
  while (uses_[graph_.index(value)] == 1) {
    const Op op = graph_.node(value).op;
    if (!is_view(op)) return storage(value) == value;
    if (op != Op::reshape && op != Op::permute) return false;
    value = graph_.node(value).inputs[0];
  }
  return false;
}

void Fuser::find_nested_concats() {
  is_nested_.assign(graph_.nodes().size(), false);
  feeds_collective_.assign(graph_.nodes().size(), false);
  for (const Node& node : graph_.nodes())
    if (is_collective(node.op)) feeds_collective_[node.inputs[0].node] = true;
  for (const Node& node : graph_.nodes()) {
    if (node.op != Op::concat) continue;
    for (Value part : node.inputs)
      if (graph_.node(source_of(part)).op == Op::concat && is_alone(part))
        is_nested_[source_of(part).node] = true;
  }
}

// The part's region of memory, as the value behind its views has to lie there.
std::optional<Layout> Fuser::region_of_source(Value part, Layout region) const {
  const Value source = source_of(part);
  for (Value view = part; view != source; view = graph_.node(view).inputs[0]) {
    const Node& node = graph_.node(view);
    if (node.op == Op::reshape) {
      const auto strides =
          reshape_strides(type(view).shape, region.strides, type(node.inputs[0]).shape);
      if (!strides) return std::nullopt;
      region.strides = *strides;
    } else {
      const Dims& order = std::get<Axes>(node.attributes.detail).axes;
      const Strides seen = region.strides;
      for (int axis = 0; axis < order.rank(); ++axis)
        region.strides[static_cast<int>(order[axis])] = seen[axis];
    }
  }
  return region;
}

// Whether the kernel that was chosen for a value, which nobody has asked for yet, can write it
// there: a library call where the region looks like memory of its own, a fold of columns into any
// place.
bool Fuser::writes_into(Value source, const Layout& region) const {
  const Facts& of = facts_[graph_.index(source)];
  const Op op = graph_.node(source).op;
  if (of.home < 0 || !is_contiguous(type(source).shape, region.strides)) return false;
  const GroupKind kind = drafts_[static_cast<size_t>(of.home)]->group.kind;
  if (kind != GroupKind::library) return !of.stored;
  return region.offset * info(type(source).dtype).size % kArenaAlignment == 0 && !is_update(op) &&
         !is_collective(op) && op != Op::concat && graph_.node(source).outputs.size() == 1;
}

// Finds who computes the parts, and where each of them would lie. False: one cannot.
bool Fuser::collect(uint32_t concat, const Layout& region, std::vector<Filling>& fillings) {
  const Node& node = graph_.nodes()[concat];
  const auto axis = static_cast<int>(std::get<Axes>(node.attributes.detail).axes[0]);
  int64_t begin = 0;
  for (Value part : node.inputs) {
    Layout of_part = region;
    of_part.offset += begin * region.strides[axis];
    begin += type(part).shape[axis];
    const Value source = source_of(part);
    const auto of_source = is_alone(part) ? region_of_source(part, of_part) : std::nullopt;
    if (!of_source) return false;
    const bool waits = facts(source).home == kNowhere;
    if (waits && is_nested_[source.node]) {
      if (!collect(source.node, *of_source, fillings)) return false;
    } else if (is_head_tensor(graph_.node(source), source.output) ||
               (waits && is_pointwise(source)) ||
               (feeds_collective_[concat] && writes_into(source, *of_source))) {
      fillings.push_back({source, *of_source});
    } else {
      return false;
    }
  }
  return true;
}

// How the results of a fold of columns lie in its domain: side by side along the last axis.
Strides Fuser::column_strides(const Shape& domain) {
  Strides strides = Dims::filled(domain.rank(), 0);
  strides.back() = domain.back() == 1 ? 0 : 1;
  return strides;
}

// Where the kernel that computes the value writes it; nothing where its domain lies otherwise.
std::optional<FusedOperand> Fuser::operand_in(const Filling& filling) {
  const Draft& home = *drafts_[static_cast<size_t>(facts(filling.source).home)];
  const TensorType& of = type(filling.source);
  FusedOperand to{.storage = filling.region.storage, .dtype = of.dtype, .strides = {}};
  if (home.group.kind == GroupKind::column) {
    to.offset = filling.region.offset;
    to.strides = column_strides(home.domain());
    return to;
  }
  const auto access = access_in_domain(of.shape, home.domain());
  if (!access) return std::nullopt;
  const auto seen = see_through({of.shape, filling.region.offset, filling.region.strides}, *access);
  if (!seen) return std::nullopt;
  to.offset = seen->offset;
  to.strides = seen->strides;
  return to;
}

bool Fuser::store_parts(uint32_t number) {
  const Value whole{number, 0};
  std::vector<Filling> fillings;
  if (!collect(number, {whole, 0, contiguous_strides(type(whole).shape)}, fillings)) return false;
  for (Filling& filling : fillings) {
    if (facts(filling.source).home == kNowhere) place(filling.source);
    const auto home = static_cast<size_t>(facts(filling.source).home);
    const bool is_generated = drafts_[home]->group.kind != GroupKind::library;
    if (is_generated && !(filling.to = operand_in(filling))) return false;
  }
  for (Filling& filling : fillings) {
    const Facts& of = facts(filling.source);
    if (filling.to)
      drafts_[static_cast<size_t>(of.home)]->group.kernel.results.push_back(
          {of.step, std::move(*filling.to)});
    else
      result_.layouts[graph_.index(filling.source)] = filling.region;
    facts(whole).home = std::max(facts(whole).home, of.home);
  }
  facts(whole).stored = true;
  return true;
}

void Fuser::put_together(uint32_t number) {
  if (!store_parts(number)) call_library(number);
}

}  // namespace ridgeline
