// Dynamic loss scaling, for gradients that are too small for fp16: the loss is multiplied by a
// scale, the optimizer divides gradients by it, and the scale adapts to the range of fp16.
#pragma once

#include "graph/tensor.h"

namespace ridgeline {

// The input of a training graph that holds the state of the scale (LossScaleState).
inline constexpr const char* kLossScaleInput = "optimizer.loss_scale";

// PyTorch's defaults.
struct LossScaling {
  double initial = 65536;
  int64_t growth_interval = 2000;  // good steps after which the scale doubles; 0: it never changes
};

// The factor of the loss, fp32 [1]; the input is created on first use.
Tensor loss_scale(Graph& graph);

// `factor`, or 0 where the norm is not finite: which makes AdamW skip a step.
Tensor zero_unless_finite(const Tensor& factor, const Tensor& norm);

// Appends the update of the scale after a step whose gradients have this norm.
void add_loss_scale_update(Graph& graph, const Tensor& norm, const LossScaling& scaling);

}  // namespace ridgeline
