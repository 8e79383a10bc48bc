// One element of an AdamW step: parameter, moment or copy, from the inputs that the step read.
#include <cmath>

#include "kernels/reference/definitions.h"
#include "kernels/reference/elements.h"

namespace ridgeline {
namespace {

Bounded plus(const Bounded& a, const Bounded& b) {
  return apply(Op::add, {a, b});
}

// An element of a gradient that the update computes itself.
Bounded product_element(const ElementCall& call, size_t tensor, const Dims& at) {
  const auto& spec = std::get<AdamWSpec>(call.node.attributes.detail);
  const size_t count = call.node.outputs.size() / spec.results_of_each();
  const ElementOperand matrices[] = {call.inputs[spec.first_parameter() + count + tensor],
                                     call.inputs[spec.right_matrix(tensor, count)]};
  Node product;
  product.op = Op::matmul;
  const DType dtype = matrices[0].dtype;
  product.outputs = {{dtype, call.inputs[spec.first_parameter() + tensor].shape}};
  return element({product, matrices, call.on_tensor_cores},
                 {.output = 0, .at = at, .dtype = dtype});
}

}  // namespace

Bounded adamw_element(const ElementCall& call, const ElementPlace& place) {
  const auto& spec = std::get<AdamWSpec>(call.node.attributes.detail);
  const size_t first = spec.first_parameter();
  const size_t count = call.node.outputs.size() / spec.results_of_each();
  const size_t tensor = place.output % count, what = place.output / count;
  const int64_t flat = reference::flat_index(call.inputs[first + tensor].shape, place.at);
  // Kinds: parameters, gradients, first and second moments; gradients are flat.
  const auto value = [&](size_t kind) {
    return Bounded{
        call.inputs[first + kind * count + tensor].read(kind == 1 ? Dims{flat} : place.at), 0};
  };
  const auto scalar = [&](AdamWScalar which) {
    return call.inputs[0].read({static_cast<int64_t>(which)});
  };
  // A skipped step changes nothing; a copy is the rounded parameter.
  if (spec.skips && call.inputs[1].read({0}) == 0)
    return what == 1 ? value(2) : what == 2 ? value(3) : stored(value(0), place.dtype);
  const Bounded computed =
      spec.is_product(tensor) ? product_element(call, tensor, place.at) : value(1);
  const Bounded gradient = spec.scaled ? times(computed, {call.inputs[1].read({0}), 0}) : computed;

  const Bounded m =
      plus(times(as_single(spec.beta1), value(2)), times(as_single(1 - spec.beta1), gradient));
  if (what == 1) return m;
  const Bounded v = plus(times(as_single(spec.beta2), value(3)),
                         times(as_single(1 - spec.beta2), times(gradient, gradient)));
  if (what == 2) return v;

  const bool is_cs336 = spec.variant == AdamWVariant::cs336;
  const double rate = scalar(AdamWScalar::learning_rate);
  const double first_correction = scalar(AdamWScalar::first_correction);
  const double root = std::sqrt(scalar(AdamWScalar::second_correction));
  const Bounded decay = as_single(1 - rate * spec.weight_decay);
  const Bounded epsilon = as_single(spec.epsilon);
  const Bounded uncorrected = apply(Op::sqrt, {v});
  const Bounded divisor =
      plus(is_cs336 ? uncorrected : times(uncorrected, as_single(1 / root)), epsilon);
  const Bounded step = times(as_single(rate * (is_cs336 ? root : 1) / first_correction),
                             apply(Op::divide, {m, divisor}));
  const Bounded before = is_cs336 ? value(0) : times(value(0), decay);
  const Bounded moved = apply(Op::subtract, {before, step});
  // A copy is rounded from the parameter as it is stored.
  return stored(is_cs336 ? times(moved, decay) : moved, place.dtype);
}

int64_t adamw_reads(const ElementCall& call, size_t output) {
  const auto& spec = std::get<AdamWSpec>(call.node.attributes.detail);
  const size_t count = call.node.outputs.size() / spec.results_of_each(), tensor = output % count;
  const int64_t gradient =
      spec.is_product(tensor)
          ? 2 * call.inputs[spec.first_parameter() + count + tensor].shape.back()
          : 1;
  return 4 + gradient;
}

}  // namespace ridgeline
