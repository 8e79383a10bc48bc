#include "models/loss_scaling.h"

#include <limits>

namespace ridgeline {
namespace {

Tensor loss_scale_state(Graph& graph) {
  for (const Value value : graph.inputs())
    if (graph.input_info(value).name == kLossScaleInput) return Tensor(graph, value);
  return Tensor(
      graph, graph.input({kLossScaleInput, Role::step_scalars}, {DType::f32, {kLossScaleState}}));
}

}  // namespace

Tensor loss_scale(Graph& graph) {
  constexpr auto kScale = static_cast<int64_t>(LossScaleState::scale);
  return slice(loss_scale_state(graph), 0, kScale, kScale + 1);
}

Tensor zero_unless_finite(const Tensor& factor, const Tensor& norm) {
  const Tensor largest = scalar(norm, std::numeric_limits<float>::max());
  return where(less_equal(norm, largest), factor, scalar(factor, 0));
}

void add_loss_scale_update(Graph& graph, const Tensor& norm, const LossScaling& scaling) {
  const Tensor after = loss_scale_update(loss_scale_state(graph), norm,
                                         {.growth_interval = scaling.growth_interval});
  graph.mark_output(kLossScaleInput, after.value());
}

}  // namespace ridgeline
