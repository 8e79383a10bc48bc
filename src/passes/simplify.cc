#include "passes/simplify.h"

#include <array>
#include <cmath>
#include <optional>

#include "passes/fold_constants.h"
#include "passes/rewrite.h"

namespace ridgeline {
namespace {

// A node that is already in the target; every rule gives what may stand for its one result, or
// nothing.
struct Candidate {
  const Tensor& y;
  const Node node;  // a copy: nodes move as the graph grows

  Tensor operand(size_t i) const { return Tensor(y.graph(), node.inputs[i]); }
  // The node that made an operand.
  const Node& maker(size_t i) const { return y.graph().node(node.inputs[i]); }
  Tensor inner(size_t i, size_t j = 0) const { return Tensor(y.graph(), maker(i).inputs[j]); }
  // `x` in the place of the result; broadcasting may have made that larger.
  Tensor fitted(const Tensor& x) const { return expand(x, y.shape()); }
};

using Rule = Tensor (*)(const Candidate&);

// What is left of a value when no rule fits any more; for parts that a rule builds.
Tensor settled(Tensor y);

std::optional<double> constant_value(const Tensor& x) {
  return constant_value(x.graph(), x.value());
}

bool is(const std::optional<double>& value, double wanted) {
  return value && *value == wanted;
}

Tensor neutral_right(const Candidate& c, double neutral) {
  return is(constant_value(c.operand(1)), neutral) ? c.fitted(c.operand(0)) : Tensor();
}

Tensor neutral_left(const Candidate& c, double neutral) {
  return is(constant_value(c.operand(0)), neutral) ? c.fitted(c.operand(1)) : Tensor();
}

Tensor times_one(const Candidate& c) {
  const Tensor left = neutral_left(c, 1);
  return left ? left : neutral_right(c, 1);
}

Tensor plus_zero(const Candidate& c) {
  const Tensor left = neutral_left(c, 0);
  return left ? left : neutral_right(c, 0);
}

Tensor minus_zero(const Candidate& c) {
  return neutral_right(c, 0);
}

Tensor over_one(const Candidate& c) {
  return neutral_right(c, 1);
}

// Exact, as long as the reciprocal is a normal number of the dtype.
Tensor over_power_of_two(const Candidate& c) {
  const std::optional<double> divisor = constant_value(c.operand(1));
  int exponent = 0;
  if (!divisor || std::abs(std::frexp(*divisor, &exponent)) != 0.5) return {};
  const int largest = c.y.dtype() == DType::f16 ? 13 : 100;
  if (std::abs(exponent) > largest) return {};
  return c.fitted(settled(c.operand(0) * scalar(c.y, 1 / *divisor)));
}

// (x * c) * d, which rounds once instead of twice.
Tensor merged_factors(const Candidate& c) {
  for (size_t outer : {0, 1}) {
    const std::optional<double> factor = constant_value(c.operand(outer));
    if (!factor || c.maker(1 - outer).op != Op::multiply) continue;
    for (size_t i : {0, 1}) {
      const std::optional<double> other = constant_value(c.inner(1 - outer, i));
      if (!other) continue;
      const double product = *factor * *other;
      if (!std::isfinite(product) || std::abs(product) < 0x1p-14 || std::abs(product) > 0x1p14)
        return {};  // may leave the range of a narrow dtype
      return c.fitted(settled(c.inner(1 - outer, 1 - i) * scalar(c.y, product)));
    }
  }
  return {};
}

Tensor double_negation(const Candidate& c) {
  return c.maker(0).op == Op::negate ? c.inner(0) : Tensor();
}

Tensor plus_negated(const Candidate& c) {
  if (c.maker(1).op == Op::negate) return c.operand(0) - c.inner(1);
  if (c.maker(0).op == Op::negate) return c.operand(1) - c.inner(0);
  return {};
}

Tensor minus_negated(const Candidate& c) {
  return c.maker(1).op == Op::negate ? c.operand(0) + c.inner(1) : Tensor();
}

Tensor cast_to_same(const Candidate& c) {
  return c.operand(0).dtype() == c.y.dtype() ? c.operand(0) : Tensor();
}

bool holds_all_of(DType wide, DType narrow) {
  const auto is_fp32 = [](DType dtype) { return dtype == DType::f32 || dtype == DType::tf32; };
  if (wide == narrow || narrow == DType::boolean) return true;
  return is_fp32(wide) && is_floating(narrow);
}

Tensor cast_of_widened(const Candidate& c) {
  if (c.maker(0).op != Op::cast) return {};
  const Tensor x = c.inner(0);
  return holds_all_of(c.operand(0).dtype(), x.dtype()) ? cast(x, c.y.dtype()) : Tensor();
}

// cast(view(x)) is view(cast(x)): the cast is then part of the kernel that computes x.
Tensor cast_before_view(const Candidate& c) {
  const Node view = c.maker(0);
  if (view.op != Op::reshape && view.op != Op::permute) return {};
  Attributes attributes = view.attributes;
  attributes.target.type.dtype = c.y.dtype();
  const Tensor narrow = settled(cast(c.inner(0), c.y.dtype()));
  return Tensor(c.y.graph(), c.y.graph().add(view.op, {narrow.value()}, std::move(attributes)));
}

Tensor cast_before_concat(const Candidate& c) {
  const Node whole = c.maker(0);
  if (whole.op != Op::concat) return {};
  std::vector<Tensor> parts;
  for (Value part : whole.inputs)
    parts.push_back(settled(cast(Tensor(c.y.graph(), part), c.y.dtype())));
  return concat(parts, static_cast<int>(std::get<Axes>(whole.attributes.detail).axes[0]));
}

Tensor same_shape(const Candidate& c) {
  return c.operand(0).shape() == c.y.shape() ? c.operand(0) : Tensor();
}

Shape without_ones(const Shape& shape) {
  Shape result;
  for (int64_t size : shape)
    if (size != 1) result.push_back(size);
  return result;
}

// Not through a reshape that may have to copy: others may look at that copy, and it would be made
// twice.
Tensor reshape_of_reshape(const Candidate& c) {
  if (c.maker(0).op != Op::reshape) return {};
  const Tensor x = c.inner(0);
  const bool contiguous = !is_view(c.y.graph().node(x.value()).op);
  const bool only_ones = without_ones(x.shape()) == without_ones(c.operand(0).shape());
  if (!contiguous && !only_ones && x.shape() != c.y.shape()) return {};
  return reshape(x, c.y.shape());
}

Tensor permute_without_moves(const Candidate& c) {
  const Dims& order = std::get<Axes>(c.node.attributes.detail).axes;
  int64_t last = -1;
  for (int64_t axis : order) {
    if (c.operand(0).shape()[static_cast<int>(axis)] == 1) continue;
    if (axis < last) return {};
    last = axis;
  }
  return reshape(c.operand(0), c.y.shape());
}

Tensor permute_of_permute(const Candidate& c) {
  if (c.maker(0).op != Op::permute) return {};
  const Dims& outer = std::get<Axes>(c.node.attributes.detail).axes;
  const Dims inner = std::get<Axes>(c.maker(0).attributes.detail).axes;
  Dims order = outer;
  for (int axis = 0; axis < order.rank(); ++axis)
    order[axis] = inner[static_cast<int>(outer[axis])];
  return permute(c.inner(0), order);
}

Tensor expand_of_expand(const Candidate& c) {
  return c.maker(0).op == Op::expand ? c.fitted(c.inner(0)) : Tensor();
}

Tensor view_of_constant(const Candidate& c) {
  const std::optional<double> value = constant_value(c.operand(0));
  return value ? c.fitted(scalar(c.y, *value)) : Tensor();
}

Tensor slice_of_slice(const Candidate& c) {
  if (c.maker(0).op != Op::slice) return {};
  const Range& outer = std::get<Range>(c.node.attributes.detail);
  const Range inner = std::get<Range>(c.maker(0).attributes.detail);
  if (outer.axis != inner.axis) return {};
  return slice(c.inner(0), outer.axis, inner.begin + outer.begin, inner.begin + outer.end);
}

Tensor slice_of_pad(const Candidate& c) {
  if (c.maker(0).op != Op::pad) return {};
  const Range& part = std::get<Range>(c.node.attributes.detail);
  const Range filled = std::get<Range>(c.maker(0).attributes.detail);
  if (part.axis != filled.axis || part.begin < filled.begin || part.end > filled.end) return {};
  return slice(c.inner(0), part.axis, part.begin - filled.begin, part.end - filled.begin);
}

Tensor slice_of_concat(const Candidate& c) {
  const Node& concat = c.maker(0);
  const Range& range = std::get<Range>(c.node.attributes.detail);
  if (concat.op != Op::concat || std::get<Axes>(concat.attributes.detail).axes[0] != range.axis)
    return {};
  int64_t begin = 0;
  for (Value input : concat.inputs) {
    const Tensor part(c.y.graph(), input);
    const int64_t end = begin + part.shape()[range.axis];
    if (range.begin >= begin && range.end <= end)
      return slice(part, range.axis, range.begin - begin, range.end - begin);
    begin = end;
  }
  return {};
}

// Zeros around a, plus zeros around b, where the two meet: the two side by side.
Tensor sum_of_pads(const Candidate& c) {
  if (c.maker(0).op != Op::pad || c.maker(1).op != Op::pad) return {};
  Tensor low = c.inner(0), high = c.inner(1);
  Range below = std::get<Range>(c.maker(0).attributes.detail);
  Range above = std::get<Range>(c.maker(1).attributes.detail);
  if (below.axis != above.axis || c.operand(0).shape() != c.operand(1).shape()) return {};
  if (above.begin < below.begin) {
    std::swap(low, high);
    std::swap(below, above);
  }
  if (below.end != above.begin) return {};
  std::vector<Tensor> parts;
  for (const Tensor& part :
       {low, high}) {  // what is put together already is not put together twice
    const Node& made = c.y.graph().node(part.value());
    if (made.op == Op::concat && std::get<Axes>(made.attributes.detail).axes[0] == below.axis)
      for (Value each : made.inputs) parts.emplace_back(c.y.graph(), each);
    else
      parts.push_back(part);
  }
  return settled(pad(concat(parts, below.axis), below.axis, below.begin, c.y.shape()[below.axis]));
}

Tensor concat_of_one(const Candidate& c) {
  return c.node.inputs.size() == 1 ? c.operand(0) : Tensor();
}

// Reduced axes stay with size 1, so that an axis of size 1 has nothing to reduce.
Tensor reduction_over_one(const Candidate& c) {
  const Dims& axes = std::get<Axes>(c.node.attributes.detail).axes;
  Dims left;
  for (int64_t axis : axes)
    if (c.operand(0).shape()[static_cast<int>(axis)] != 1) left.push_back(axis);
  if (left.rank() == 0) return c.operand(0);
  if (left.rank() == axes.rank()) return {};
  return Tensor(c.y.graph(), c.y.graph().add(c.node.op, c.node.inputs, {Axes{left}, {}}));
}

Tensor where_decided(const Candidate& c) {
  const std::optional<double> condition = constant_value(c.operand(0));
  if (!condition) return {};
  return c.fitted(c.operand(*condition != 0 ? 1 : 2));
}

Tensor where_of_equals(const Candidate& c) {
  return c.node.inputs[1] == c.node.inputs[2] ? c.fitted(c.operand(1)) : Tensor();
}

Tensor folded(const Candidate& c) {
  const std::optional<double> value = fold(c.y.graph(), c.y.value());
  return value ? c.fitted(scalar(c.y, *value)) : Tensor();
}

// op(expand(a), b) is expand(op(a, b)), and mostly op(a, b) itself, since operands broadcast.
Tensor expand_after(const Candidate& c) {
  std::vector<Value> bare = c.node.inputs;
  for (size_t i = 0; i < bare.size(); ++i)
    if (c.maker(i).op == Op::expand) bare[i] = c.maker(i).inputs[0];
  if (bare == c.node.inputs) return {};
  const Value value = c.y.graph().add(c.node.op, std::move(bare), c.node.attributes);
  return c.fitted(settled(Tensor(c.y.graph(), value)));
}

struct SimplifyRule {
  std::string_view name;
  std::vector<Op> ops;
  Rule apply;
};

std::vector<Op> ops_of(OpClass kind) {
  std::vector<Op> ops;
  for (size_t i = 0; i < kOpCount; ++i)
    if (info(static_cast<Op>(i)).kind == kind) ops.push_back(static_cast<Op>(i));
  return ops;
}

const std::vector<SimplifyRule>& rules() {
  static const std::vector<Op> kPointwise = ops_of(OpClass::pointwise);
  static const std::vector<SimplifyRule> kRules = {
      {"constants are folded", kPointwise, folded},
      {"x * 1 = x", {Op::multiply}, times_one},
      {"x + 0 = x", {Op::add}, plus_zero},
      {"x - 0 = x", {Op::subtract}, minus_zero},
      {"x / 1 = x", {Op::divide}, over_one},
      {"x / 2^k = x * 2^-k", {Op::divide}, over_power_of_two},
      {"(x * c) * d = x * (c d)", {Op::multiply}, merged_factors},
      {"-(-x) = x", {Op::negate}, double_negation},
      {"a + (-b) = a - b", {Op::add}, plus_negated},
      {"a - (-b) = a + b", {Op::subtract}, minus_negated},
      {"a cast to the same dtype is dropped", {Op::cast}, cast_to_same},
      {"casts that lose nothing are merged", {Op::cast}, cast_of_widened},
      {"casts come before reshape and permute", {Op::cast}, cast_before_view},
      {"casts come before concat", {Op::cast}, cast_before_concat},
      {"a constant condition chooses", {Op::where}, where_decided},
      {"equal branches need no condition", {Op::where}, where_of_equals},
      {"pointwise ops come before expand", kPointwise, expand_after},
      {"a reshape, expand, slice or pad to the same shape is dropped",
       {Op::reshape, Op::expand, Op::slice, Op::pad},
       same_shape},
      {"reshapes are merged", {Op::reshape}, reshape_of_reshape},
      {"permutes are merged", {Op::permute}, permute_of_permute},
      {"a permute that moves no element is a reshape", {Op::permute}, permute_without_moves},
      {"expands are merged", {Op::expand}, expand_of_expand},
      {"a view of a constant is an expand",
       {Op::reshape, Op::permute, Op::slice},
       view_of_constant},
      {"slices are merged", {Op::slice}, slice_of_slice},
      {"a slice of a pad is one of the input", {Op::slice}, slice_of_pad},
      {"a slice of a concat is one of a part", {Op::slice}, slice_of_concat},
      {"zeros around parts that meet are a concat", {Op::add}, sum_of_pads},
      {"a concat of one is dropped", {Op::concat}, concat_of_one},
      {"axes of size 1 are not reduced", {Op::sum, Op::mean, Op::max}, reduction_over_one},
  };
  return kRules;
}

const std::vector<const SimplifyRule*>& rules_of(Op op) {
  static const auto kByOp = [] {
    std::array<std::vector<const SimplifyRule*>, kOpCount> by_op;
    for (const SimplifyRule& rule : rules())
      for (Op each : rule.ops) by_op[static_cast<size_t>(each)].push_back(&rule);
    return by_op;
  }();
  return kByOp[static_cast<size_t>(op)];
}

// Applies rules to one value until none fits; its operands have been through this before.
Tensor settled(Tensor y, SimplifyReport* report) {
  for (bool again = true; again;) {
    again = false;
    const Tensor before = y;
    const Candidate candidate{before, y.graph().node(y.value())};
    for (const SimplifyRule* rule : rules_of(candidate.node.op)) {
      const Tensor simpler = rule->apply(candidate);
      if (!simpler || simpler.value() == y.value()) continue;
      if (report != nullptr) ++(*report)[rule->name];
      y = simpler;
      again = true;
      break;
    }
  }
  return y;
}

Tensor settled(Tensor y) {
  return settled(y, nullptr);
}

}  // namespace

Graph simplify(const Graph& graph, SimplifyReport* report) {
  return rewrite(graph, [&](const Site& site) -> std::vector<Value> {
    if (rules_of(site.node.op).empty()) return {};
    const Value copy = site.target.add(site.node.op, {site.inputs.begin(), site.inputs.end()},
                                       site.node.attributes);
    return {settled(Tensor(site.target, copy), report).value()};
  });
}

std::vector<std::string_view> simplify_rules() {
  std::vector<std::string_view> names;
  for (const SimplifyRule& rule : rules()) names.push_back(rule.name);
  return names;
}

}  // namespace ridgeline
