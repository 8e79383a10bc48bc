// How a group comes by the values that it works on: found, computed again, or read from memory.
#include <algorithm>

#include "plan/fuser.h"
#include "plan/op_text.h"
#include "plan/reduction.h"

namespace ridgeline {

bool Fuser::is_pointwise(Value value) const {
  const Node& node = graph_.node(value);
  if (node.op == Op::reshape) return true;  // asked of copies only
  if (info(node.op).kind == OpClass::reduction)
    return classify_reduction(node, type(node.inputs[0]).shape).form == ReductionForm::copy;
  return info(node.op).kind == OpClass::pointwise && !fused_op(node.op).text.empty();
}

Fuser::Work Fuser::work_of(Value value) const {
  const Node& node = graph_.node(value);
  const auto at_least_one_axis = [](Shape shape) { return shape.rank() == 0 ? Shape{1} : shape; };
  if (node.op == Op::reshape) return {at_least_one_axis(type(node.inputs[0]).shape)};
  if (info(node.op).kind != OpClass::reduction) return {at_least_one_axis(type(value).shape)};
  const Reduction reduction = classify_reduction(node, type(node.inputs[0]).shape);
  return {reduction.domain,
          reduction.form == ReductionForm::columns ? GroupKind::column : GroupKind::row};
}

// Whether a group may read the value from memory, now or after its home is told to store it.
bool Fuser::readable(uint32_t group, Value value) {
  const Facts& of = facts(value);
  if (of.home == kNowhere || of.home >= static_cast<int32_t>(group)) return false;
  return std::ranges::none_of(facts(storage(value)).updates, [&](int32_t update) {
    return of.home < update && update < static_cast<int32_t>(group);
  });
}

// Bytes that a group has to read, and others to write for it, if it computes the value itself.
double Fuser::recompute_bytes(uint32_t group, Value value, double limit) {
  double total = 0;
  int weight = 0;
  std::vector<Value> open = {value};
  std::vector<Value> seen;
  while (!open.empty()) {
    const Value looked_at = open.back();  // which may be a part of what lies behind it
    const Value top = behind_views(looked_at);
    open.pop_back();
    if (std::find(seen.begin(), seen.end(), top) != seen.end()) continue;
    seen.push_back(top);
    const Node& node = graph_.node(top);
    if (node.op == Op::constant || node.op == Op::iota) continue;
    if (top != value && drafts_[group]->mentions(graph_.index(top))) continue;
    const bool stored = facts(top).stored && readable(group, top);
    if (is_pointwise(top) && (top == value || !stored)) {
      weight += is_copy(node) ? 0 : fused_op(node.op).weight;
      if (weight > kRecomputedWeight) return kImpossible;
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
      continue;
    }
    if (!stored && !readable(group, top)) return kImpossible;
    const double read = std::min(bytes(looked_at), bytes(top));
    total += stored ? read : read + bytes(top);
    if (total > limit) return total;
  }
  return total;
}

std::optional<uint32_t> Fuser::blocked(Value value, FusionRefusal why) {
  blocked_by_ = value;
  why_ = why;
  return std::nullopt;
}

// The step of a group that has the value as the domain sees it; it is added if need be.
std::optional<uint32_t> Fuser::resolve(uint32_t group, Value value, Access access) {
  while (is_view(graph_.node(value).op) && !owns(value)) {
    access.push_back({.view = &graph_.node(value)});
    value = graph_.node(value).inputs[0];
  }
  Draft& draft = *drafts_[group];
  const Node& node = graph_.node(value);
  const auto placed = see_through(contiguous(type(value).shape), access);
  if (node.op == Op::constant) {
    const SeenValue seen{graph_.index(value), 0, {}};
    if (const auto known = draft.find(seen)) return known;
    const uint32_t step = draft.add({.kind = FusedStep::Kind::constant,
                                     .dtype = type(value).dtype,
                                     .constant = std::get<Scalar>(node.attributes.detail).value,
                                     .value = value});
    draft.name_step(seen, step);
    return step;
  }
  SeenValue seen;
  if (placed) {
    seen = {graph_.index(value), placed->offset, placed->strides};
    if (const auto known = draft.find(seen)) return known;
  }
  if (node.op == Op::iota) {
    if (!placed) return blocked(value, FusionRefusal::read_otherwise);
    if (draft.group.kernel.inputs.size() >= kMostInputs)
      return blocked(value, FusionRefusal::too_large);
    const uint32_t step = draft.add_input({.storage = value,
                                           .dtype = DType::i32,
                                           .offset = placed->offset,
                                           .strides = placed->strides,
                                           .is_position = true},
                                          value);
    draft.name_step(seen, step);
    return step;
  }
  const bool can_read = readable(group, value);
  if (is_pointwise(value)) {
    const double keep = facts(value).stored ? bytes(value) : 2 * bytes(value);
    if (!can_read || recompute_bytes(group, value, keep) < keep) {
      const Draft::Mark mark = draft.mark();
      if (const auto step = compute(group, value, access)) {
        if (placed) draft.name_step(seen, *step);
        return step;
      }
      draft.roll_back(mark);
      if (!can_read) return blocked(value, why_);
    }
  }
  if (!can_read)
    return blocked(value, facts(value).home >= static_cast<int32_t>(group)
                              ? FusionRefusal::read_later
                              : FusionRefusal::overwritten);
  const auto step = load(group, value, access);
  if (step && placed) draft.name_step(seen, *step);
  return step;
}

std::optional<uint32_t> Fuser::compute(uint32_t group, Value value, const Access& access) {
  Draft& draft = *drafts_[group];
  const Node& node = graph_.node(value);
  FusedStep step{.op = node.op, .dtype = type(value).dtype, .value = value};
  for (Value input : node.inputs) {
    Access inner = access;
    if (node.op == Op::reshape) {
      inner.push_back({.view = &node});
    } else if (type(input).shape != type(value).shape) {
      inner.push_back({.broadcasts = true, .shape = type(value).shape});
    }
    const auto operand = resolve(group, input, std::move(inner));
    if (!operand) return std::nullopt;
    step.inputs.push_back(*operand);
  }
  if (is_copy(node)) return step.inputs[0];
  if (draft.group.kernel.steps.size() >= kMostSteps)
    return blocked(value, FusionRefusal::too_large);
  return draft.add(std::move(step));
}

std::optional<uint32_t> Fuser::load(uint32_t group, Value value, const Access& access) {
  Draft& draft = *drafts_[group];
  const Layout& layout = result_.layouts[graph_.index(value)];
  const auto placed = see_through({type(value).shape, layout.offset, layout.strides}, access);
  if (!placed) return blocked(value, FusionRefusal::read_otherwise);
  if (draft.group.kernel.inputs.size() >= kMostInputs)
    return blocked(value, FusionRefusal::too_large);
  return draft.add_input({.storage = layout.storage,
                          .dtype = type(value).dtype,
                          .offset = placed->offset,
                          .strides = placed->strides},
                         value);
}

}  // namespace ridgeline
