// Gradient norms, AdamW and the loss scale, by definition.
#include <cmath>

#include "support/interpreter/evaluators.h"

namespace ridgeline::reference {

Data sum_of_squares(const Call& call) {
  double total = 0;
  for (const Operand& tensor : call.inputs)
    for (double value : tensor.data) total += value * value;
  return {total};
}

Results adamw_update(const Call& call) {
  const auto& spec = std::get<AdamWSpec>(call.node.attributes.detail);
  const Data& scalars = call.inputs[0].data;
  const double rate = scalars[0], first_correction = scalars[1], second_correction = scalars[2];
  const double scale = spec.scaled ? call.inputs[1].data[0] : 1;
  const size_t first = spec.first_parameter();
  const size_t count = (call.inputs.size() - first) / (spec.results_of_each() + 1);
  Results results(spec.results_of_each() * count);
  const bool is_skipped = spec.skips && scale == 0;
  for (size_t t = 0; t < count; ++t) {
    Data p = call.inputs[first + t].data;
    const Data& g = call.inputs[first + count + t].data;
    Data m = call.inputs[first + 2 * count + t].data;
    Data v = call.inputs[first + 3 * count + t].data;
    for (size_t i = 0; i < p.size() && !is_skipped; ++i) {
      const double d = g[i] * scale;
      m[i] = spec.beta1 * m[i] + (1 - spec.beta1) * d;
      v[i] = spec.beta2 * v[i] + (1 - spec.beta2) * d * d;
      if (spec.variant == AdamWVariant::cs336) {
        const double alpha = rate * std::sqrt(second_correction) / first_correction;
        p[i] -= alpha * m[i] / (std::sqrt(v[i]) + spec.epsilon);
        p[i] -= rate * spec.weight_decay * p[i];
      } else {
        p[i] -= rate * spec.weight_decay * p[i];
        const double m_corrected = m[i] / first_correction;
        const double v_corrected = v[i] / second_correction;
        p[i] -= rate * m_corrected / (std::sqrt(v_corrected) + spec.epsilon);
      }
    }
    if (spec.copied) results[3 * count + t] = p;
    results[t] = std::move(p);
    results[count + t] = std::move(m);
    results[2 * count + t] = std::move(v);
  }
  return results;
}

Data loss_scale_update(const Call& call) {
  return after_step(call.inputs[0].data, call.inputs[1].data[0],
                    std::get<LossScaleSpec>(call.node.attributes.detail));
}

}  // namespace ridgeline::reference
