#include "passes/flash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/scope.h"
#include "passes/fold_constants.h"
#include "passes/heads.h"
#include "passes/mask.h"
#include "passes/rewrite.h"
#include "passes/score_region.h"

namespace ridgeline {
namespace {

// softmax(f(Q K^T)) V as it was found in the source graph.
struct Match {
  Value q, turned_k, v;
  AttentionSpec spec;
  Value product = {};                // Q K^T
  std::vector<Value> operands = {};  // of spec.function
};

class Matcher {
 public:
  Matcher(const Graph& graph, const FlashOptions& options, FlashReport* report)
      : graph_(graph), options_(options), report_(report), uses_(use_counts(graph)) {}

  // The match that ends in node `number`. A softmax that leads to none is reported.
  std::optional<Match> match(uint32_t number) {
    const Node& product = graph_.nodes()[number];
    if (product.op != Op::matmul) return std::nullopt;
    Value weights = product.inputs[0];
    std::optional<Value> shared = is_private(weights) ? std::nullopt : std::optional(weights);
    while (is_float_cast(weights)) {
      weights = graph_.node(weights).inputs[0];
      if (!is_private(weights)) shared = weights;
    }
    if (graph_.node(weights).op != Op::softmax) return std::nullopt;
    reason_.clear();
    if (shared) refuse(fmt::format("{} is also read elsewhere", graph_.name(*shared)));
    Match found{{}, {}, product.inputs[1], {.backward = options_.backward}};
    const Value scores = graph_.node(weights).inputs[0];
    if (!shared && (read_simple(scores, found) || read_function(scores, found)))
      check_shapes(product, graph_.type(weights).shape, found);
    if (report_ != nullptr && reason_.empty()) report_->found.push_back(graph_.name({number, 0}));
    if (report_ != nullptr && !reason_.empty())
      report_->refusals.push_back({graph_.name(weights), reason_});
    return reason_.empty() ? std::optional(found) : std::nullopt;
  }

 private:
  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  bool is_float_cast(Value value) const {
    const Node& node = graph_.node(value);
    return node.op == Op::cast && is_floating(graph_.type(value).dtype) &&
           is_floating(graph_.type(node.inputs[0]).dtype);
  }

  // What only the chain itself reads need never exist.
  bool is_private(Value value) const { return uses_[graph_.index(value)] == 1; }

  // What a simple f does between the products.
  struct Chain {
    int64_t queries, keys;
    double scale = 1;
    Band band = {};
  };

  // Walks from the softmax down to Q K^T if there is nothing but a scale and a mask on the way.
  bool read_simple(Value value, Match& found) {
    const Shape& shape = graph_.type(value).shape;
    if (shape.rank() < 2) return false;
    Chain chain{shape.back(1), shape.back()};
    while (graph_.node(value).op != Op::matmul)
      if (!is_private(value) || !step_down(value, chain)) return false;
    if (!is_private(value) || !(chain.scale > 0) || !std::isfinite(chain.scale)) return false;
    const MaskChoice choice = mask_of(chain.band, chain.queries, chain.keys);
    if (!choice.refusal.empty()) return false;
    found.spec.scale = chain.scale;
    found.spec.mask = choice.mask;
    return take_product(value, found);
  }

  // Any other f: masks on its outside become a mask where they can, the rest is applied as it is.
  bool read_function(Value value, Match& found) {
    const Shape& shape = graph_.type(value).shape;
    if (shape.rank() < 2) return refuse("the scores have one axis only");
    Chain chain{shape.back(1), shape.back()};
    Value inner = value;
    while (is_float_cast(inner) || graph_.node(inner).op == Op::where) {
      Value next = inner;
      if (!is_private(inner) || !step_down(next, chain)) break;
      inner = next;
    }
    const MaskChoice choice = mask_of(chain.band, chain.queries, chain.keys);
    if (choice.blind) return refuse(choice.refusal);
    const int64_t width = graph_.type(found.v).shape.back();
    ScoreRegion region = find_score_function(
        graph_, choice.refusal.empty() ? inner : value, uses_,
        [&](const Node& product) { return graph_.type(product.inputs[0]).shape.back() == width; });
    if (!region.refusal.empty()) return refuse(region.refusal);
    found.spec.mask = choice.mask;
    found.spec.function = std::move(region.function);
    found.operands = std::move(region.operands);
    return take_product(region.product, found);
  }

  bool take_product(Value product, Match& found) {
    found.q = graph_.node(product).inputs[0];
    found.turned_k = graph_.node(product).inputs[1];
    found.product = product;
    scores_shape_ = graph_.type(product).shape;
    return true;
  }

  // Moves `value` to the scores that its node reads, if it only scales or masks them.
  bool step_down(Value& value, Chain& chain) const {
    const Node& node = graph_.node(value);
    switch (node.op) {
      case Op::negate:
        chain.scale = -chain.scale;
        value = node.inputs[0];
        return true;
      case Op::multiply:
      case Op::divide:
        return read_factor(value, chain);
      case Op::where:
        return read_mask(value, chain);
      default:
        if (!is_float_cast(value)) return false;
        value = node.inputs[0];
        return true;
    }
  }

  bool read_factor(Value& value, Chain& chain) const {
    const Node& node = graph_.node(value);
    const auto left = constant_value(graph_, node.inputs[0]);
    const auto right = constant_value(graph_, node.inputs[1]);
    if (!right && (!left || node.op == Op::divide)) return false;
    const double factor = right ? *right : *left;
    chain.scale = node.op == Op::divide ? chain.scale / factor : chain.scale * factor;
    value = node.inputs[right ? 0 : 1];
    return true;
  }

  bool is_minus_infinity(Value value) const {
    return constant_value(graph_, value) == -std::numeric_limits<double>::infinity();
  }

  bool read_mask(Value& value, Chain& chain) const {
    const Node& node = graph_.node(value);
    const bool shows = is_minus_infinity(node.inputs[2]);
    if (!(chain.scale > 0) || (!shows && !is_minus_infinity(node.inputs[1]))) return false;
    const auto condition = band_where(graph_, node.inputs[0], chain.queries, chain.keys);
    if (!condition) return false;
    Band visible = *condition;
    if (!shows) {  // the band is hidden: what is left lies on one side of it
      visible = {};
      if (condition->high) visible.low = *condition->high + 1;
      if (condition->low) visible.high = *condition->low - 1;
    }
    Band& band = chain.band;
    if (visible.low) band.low = std::max(*visible.low, band.low.value_or(*visible.low));
    if (visible.high) band.high = std::min(*visible.high, band.high.value_or(*visible.high));
    value = node.inputs[shows ? 1 : 2];
    return true;
  }

  bool check_shapes(const Node& product, const Shape& weights, const Match& found) {
    const TensorType& q = graph_.type(found.q);
    const TensorType& k = graph_.type(found.turned_k);
    const TensorType& v = graph_.type(found.v);
    if (weights != scores_shape_) return refuse("the scores are broadcast between the products");
    Shape expected = weights;
    expected.back() = v.shape.back();
    if (product.outputs[0].shape != expected)
      return refuse("the values have leading axes that the scores have not");
    if (q.shape.back() != v.shape.back())
      return refuse(fmt::format("heads of queries are {} wide, those of values {}", q.shape.back(),
                                v.shape.back()));
    if (q.shape.back() > options_.max_head_dim)
      return refuse(fmt::format("heads are {} wide, the kernels serve up to {}", q.shape.back(),
                                options_.max_head_dim));
    if (q.dtype != k.dtype || q.dtype != v.dtype)
      return refuse(
          fmt::format("queries are {}, values {}", info(q.dtype).name, info(v.dtype).name));
    return true;
  }

  const Graph& graph_;
  const FlashOptions& options_;
  FlashReport* report_;
  std::vector<uint32_t> uses_;
  std::string reason_;
  Shape scores_shape_;
};

}  // namespace

Graph flash(const Graph& forward, FlashOptions options, FlashReport* report) {
  Matcher matcher(forward, options, report);
  return rewrite(forward, [&](const Site& site) -> std::vector<Value> {
    const std::optional<Match> match = matcher.match(site.number);
    if (!match) return {};
    const Shape& shape = site.node.outputs[0].shape;
    const Shape leading(shape.span().first(static_cast<size_t>(shape.rank() - 2)));
    const Heads heads = as_heads(site.now(match->q), turned(site.now(match->turned_k)),
                                 site.now(match->v), leading);
    std::vector<Tensor> operands;
    for (Value operand : match->operands)
      operands.push_back(as_score_operand(site.now(operand), leading, heads.q.shape()[0]));
    const std::string_view product_scope = forward.scope_path(forward.node(match->product));
    site.target.enter_scope(common_scope(forward.scope_path(site.node), product_scope));
    const AttentionResult result = attention(heads.q, heads.k, heads.v, match->spec, operands);
    if (!site.node.name.empty()) result.output.named(site.node.name);
    return {reshape(result.output, shape).value()};
  });
}

}  // namespace ridgeline
