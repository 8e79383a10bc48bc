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

// Reads the state from the device; the executable must have a scaled loss.
LossScale read_loss_scale(const Executable& executable, const Device& device);
// Sets the state before the first step.
void set_loss_scale(const Executable& executable, Device& device, double scale);

struct Underflow {     // in records: "underflow"
  std::string tensor;  // the gradient that loses most: "d_lm_head.weight"
  double share = 0;    // of its elements that are 0 without the scale, and not 0 with it
  double scale = 1;    // without `weight`
};

Json to_json(const Underflow& underflow);

// Runs forward and backward with `run`, without a scale and with the largest power of two up to
// 65536 that keeps all gradients finite; nullopt if there is none. Samples rows of large gradients.
// Restores the scale. `weight` is a constant factor of all scales, such as that of a micro-batch.
std::optional<Underflow> find_underflow(const Executable& executable, Device& device,
                                        const std::function<void()>& run, double weight = 1);

}  // namespace ridgeline
