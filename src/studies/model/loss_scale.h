// The loss scale of a model that trains in fp16, and what its gradients lose without one.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "compile/executable.h"
#include "models/loss_scaling.h"

namespace ridgeline {

struct LossScale {
  double scale = 1;
  int64_t skipped_steps = 0;
};

// What the device holds of an executable whose loss is scaled.
LossScale read_loss_scale(const Executable& executable, const Device& device);
// The state before the first step.
void set_loss_scale(const Executable& executable, Device& device, double scale);

struct Underflow {     // in records: "underflow"
  std::string tensor;  // the gradient that loses most: "d_lm_head.weight"
  double share = 0;    // of its elements: 0 without a scale, and not 0 with this one
  double scale = 1;    // on top of the weight
};

Json to_json(const Underflow& underflow);

// Runs forward and backward by `run` without a scale, and with the largest power of two up to 65536
// that leaves all gradients finite. Of large gradients some rows are looked at. Empty: there
// is no such power. The scale is what it was afterwards. `weight`: a factor that the loss has
// anyway, as that of a micro-batch.
std::optional<Underflow> find_underflow(const Executable& executable, Device& device,
                                        const std::function<void()>& run, double weight = 1);

}  // namespace ridgeline
