// The attributes of a loss scale update: everything but its tensors.
#pragma once

#include <cstdint>

namespace ridgeline {

// Inputs of a loss_scale_update node: its state (below), and the norm of all gradients, fp32 [1]. A
// norm that is not finite counts a skipped step and halves the scale; `growth_interval` finite ones
// in a row double it. Result: the state, in the storage of the input.
struct LossScaleSpec {
  int64_t growth_interval = 2000;  // 0: the scale never changes
};

// The elements of the state, an fp32 tensor.
enum class LossScaleState : uint8_t {
  scale,
  good_steps,  // since the scale changed
  skipped_steps,
};
inline constexpr int64_t kLossScaleState = 3;

}  // namespace ridgeline
