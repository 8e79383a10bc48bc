// AdamW with gradient clipping, and learning rate schedules.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "models/loss_scaling.h"

namespace ridgeline {

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  AdamWVariant variant = AdamWVariant::cs336;
  double max_norm = 0;  // gradients are scaled by min(1, max_norm / (norm + 1e-6)); 0: never
  std::optional<LossScaling> loss_scaling = {};  // gradients are those of a scaled loss
};

// "cs336" | "pytorch"; throws a usage error for anything else.
AdamWVariant parse_adamw_variant(std::string_view name);

struct TrainedParameter {
  Tensor value;  // an input of that role; it may hold several parameters
  Tensor gradient;
};

// "d_w": the output name of a parameter's gradient.
std::string gradient_name(std::string_view parameter);

// Marks `whole`, which has the layout of the input `parameter`, as outputs: every part p as prefix
// + p.
void mark_outputs(std::string_view prefix, const Tensor& parameter, const Tensor& whole);

// Appends the optimizer step. Creates the inputs "optimizer.scalars" and the moments of every
// parameter input; marks the new values as outputs under the parameters' names, their moments as
// "m.p" and "v.p" (tensor_name), and with clipping or a scaled loss the norm before clipping as
// "gradient_norm". New values and moments are updated in place. With a scaled loss a step whose
// norm is not finite changes nothing but the state of the scale, which is an output under the name
// of its input.
void add_adamw_step(Graph& graph, const std::vector<TrainedParameter>& parameters,
                    const AdamWOptions& options);

// min(1, max_norm / (norm + 1e-6)) for the norm over all tensors together.
struct Clipping {
  Tensor norm, scale;  // fp32 [1]
};
Clipping clip_by_norm(std::span<const Tensor> gradients, double max_norm);

// What "optimizer.scalars" holds in step `step`, counted from 1.
std::array<float, kAdamWScalars> adamw_scalars(const AdamWOptions& options, int64_t step,
                                               double learning_rate);

}  // namespace ridgeline
