// One element of attention or of its gradient, by definition, from the inputs that the kernel read.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/definitions.h"
#include "kernels/reference/elements.h"

namespace ridgeline {
namespace {

// fp32 operands may be split into two planes of fp16, which keep at least 22 bits.
constexpr double kCutOperand = 0x1p-21;

const AttentionSpec& spec_of(const ElementCall& call) {
  return std::get<AttentionSpec>(call.node.attributes.detail);
}

// The coordinates of one score.
struct Pair {
  int64_t batch, head, query, key;
};

class Terms {
 public:
  explicit Terms(const ElementCall& call)
      : call_(call),
        dtype_(call.inputs[0].dtype),
        group_(call.inputs[0].shape[1] / call.inputs[1].shape[1]),
        width_(call.inputs[0].shape[3]) {}

  int64_t group() const { return group_; }
  KeyRange keys(int64_t query) const {
    if (spec_of(call_).cached) return {0, call_.inputs[1].shape[2]};
    return visible_keys(spec_of(call_).mask, query, call_.inputs[0].shape[2],
                        call_.inputs[1].shape[2]);
  }
  // Whether a key of that range is visible; only a cache has keys that are not.
  bool sees(int64_t query, int64_t key) const {
    const AttentionSpec& spec = spec_of(call_);
    if (!spec.cached) return true;
    const auto first = static_cast<int64_t>(call_.inputs[3].read({0}));
    const Shape &q = call_.inputs[0].shape, &k = call_.inputs[1].shape;
    const int64_t position = reference::position_in_slot(first + q[2] - 1, key, k[2]);
    return position >= 0 && position <= first + query &&
           (spec.mask.window == 0 || position > first + query - spec.mask.window);
  }
  Bounded of_query(size_t input, const Pair& at, int64_t column) const {
    return {call_.inputs[input].read({at.batch, at.head, at.query, column}), 0};
  }
  Bounded of_key(size_t input, const Pair& at, int64_t column) const {
    return {call_.inputs[input].read({at.batch, at.head / group_, at.key, column}), 0};
  }
  // The product of a row of a query tensor with a row of a key tensor.
  Bounded product(size_t query_input, size_t key_input, const Pair& at) const {
    const double operand = dtype_ == DType::tf32 ? 2 * info(dtype_).epsilon : kCutOperand;
    BoundedSum total;
    for (int64_t c = 0; c < width_; ++c) {
      const double term = of_query(query_input, at, c).value * of_key(key_input, at, c).value;
      total.add({term, operand * std::abs(term)});
    }
    return total.total();
  }
  Bounded score(const Pair& at) const {
    return known(0, at, [&] { return times(product(0, 1, at), as_single(spec_of(call_).scale)); });
  }
  // Adds x y to a sum. The kernel computed x and rounded it to its dtype before.
  void add_product(BoundedSum& sum, const Bounded& x, const Bounded& y) const {
    const double step = is_16_bit(dtype_) ? info(dtype_).epsilon / 2 : info(DType::f32).epsilon;
    sum.add(times(x, y), step * std::abs(x.value * y.value));
  }

  // For the gradient node: from the log-sum-exp and the output that it reads.
  Bounded weight(const Pair& at) const {
    const Bounded log_sum_exp{call_.inputs[4].read({at.batch, at.head, at.query}), 0};
    if (!std::isfinite(log_sum_exp.value)) return {0, std::numeric_limits<double>::infinity()};
    return apply(Op::exp, {apply(Op::subtract, {score(at), log_sum_exp})});
  }
  Bounded d_score(const Pair& at) const {
    return known(1, at, [&] {
      BoundedSum dot;
      for (int64_t c = 0; c < width_; ++c) dot.add(times(of_query(5, at, c), of_query(3, at, c)));
      const Bounded difference = apply(Op::subtract, {product(5, 2, at), dot.total()});
      return times(times(weight(at), difference), as_single(spec_of(call_).scale));
    });
  }

 private:
  // Elements of a row share the results of their scores.
  template <class Compute>
  Bounded known(int64_t what, const Pair& at, Compute compute) const {
    const Shape& q = call_.inputs[0].shape;
    const int64_t query = (at.batch * q[1] + at.head) * q[2] + at.query;
    const int64_t key = (query * call_.inputs[1].shape[2] + at.key) * 2 + what;
    return call_.once(key, compute);
  }

  const ElementCall& call_;
  DType dtype_;
  int64_t group_, width_;
};

Bounded unknown() {
  return {0, std::numeric_limits<double>::infinity()};
}

// The total of a sum whose terms are rounded products in fp32.
Bounded total_of(const BoundedSum& sum, DType dtype) {
  return stored(sum.count() == 0 ? Bounded{} : sum.total(), dtype);
}

}  // namespace

Bounded attention_element(const ElementCall& call, const ElementPlace& place) {
  if (spec_of(call).function != nullptr) return unknown();
  const Terms terms(call);
  Pair at{place.at[0], place.at[1], place.at[2], 0};
  const KeyRange range = terms.keys(at.query);
  std::vector<int64_t> keys;
  for (int64_t key = range.first; key < range.last; ++key)
    if (terms.sees(at.query, key)) keys.push_back(key);
  if (keys.empty()) return unknown();
  std::vector<Bounded> scores;
  Bounded largest{-std::numeric_limits<double>::infinity(), 0};
  for (int64_t key : keys) {
    at.key = key;
    scores.push_back(terms.score(at));
    if (scores.back().value > largest.value) largest = scores.back();
  }
  BoundedSum total, weighted;
  for (size_t j = 0; j < scores.size(); ++j) {
    // The largest score is subtracted from all and added back, so only its value matters.
    const Bounded weight = apply(Op::exp, {apply(Op::subtract, {scores[j], {largest.value, 0}})});
    total.add(weight);
    at.key = keys[j];
    if (place.output == 0) terms.add_product(weighted, weight, terms.of_key(2, at, place.at[3]));
  }
  if (place.output == 1)
    return apply(Op::add, {apply(Op::log, {total.total()}), as_single(largest.value)});
  return apply(Op::divide, {weighted.total(), total.total()}, place.dtype);
}

Bounded attention_gradient_element(const ElementCall& call, const ElementPlace& place) {
  if (spec_of(call).function != nullptr) return unknown();
  const Terms terms(call);
  BoundedSum sum;
  if (place.output == 0) {
    Pair at{place.at[0], place.at[1], place.at[2], 0};
    const KeyRange keys = terms.keys(at.query);
    for (at.key = keys.first; at.key < keys.last; ++at.key)
      terms.add_product(sum, terms.d_score(at), terms.of_key(1, at, place.at[3]));
    return total_of(sum, place.dtype);
  }
  // Gradients of keys and values: sums over queries that see them, of every head that shares them.
  for (int64_t member = 0; member < terms.group(); ++member)
    for (int64_t query = 0; query < call.inputs[0].shape[2]; ++query) {
      const Pair at{place.at[0], place.at[1] * terms.group() + member, query, place.at[2]};
      const KeyRange keys = terms.keys(query);
      if (at.key < keys.first || at.key >= keys.last) continue;
      if (place.output == 1)
        terms.add_product(sum, terms.d_score(at), terms.of_query(0, at, place.at[3]));
      else
        terms.add_product(sum, terms.weight(at), terms.of_query(5, at, place.at[3]));
    }
  return total_of(sum, place.dtype);
}

ElementWork attention_work(const ElementCall& call) {
  const Shape &q = call.inputs[0].shape, &k = call.inputs[1].shape;
  const int64_t products = call.node.op == Op::attention_gradient ? 6 : 2;
  const int64_t terms = std::max(q[2] * q[1] / k[1], k[2]);
  return {.amortised = terms * (products + 2), .single = terms * q[3] * products};
}

}  // namespace ridgeline
