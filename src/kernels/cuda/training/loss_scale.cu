// Updates the loss scale after a step, by one thread: a gradient norm that is not finite halves it, growth_interval
// finite ones in a row double it.
#include "elements.cuh"
#include "params.h"

namespace ridgeline {

extern "C" __global__ void loss_scale(const __grid_constant__ LossScaleParams p) {
  wait_for_earlier_kernels();
  constexpr float kLargest = 3.402823466e38f;
  float &scale = p.state[0], &good_steps = p.state[1], &skipped_steps = p.state[2];
  const bool is_taken = fabsf(*p.norm) <= kLargest;  // false for a NaN
  if (!is_taken) skipped_steps += 1.0f;
  if (p.growth_interval == 0) return;
  good_steps = is_taken ? good_steps + 1.0f : 0.0f;
  if (!is_taken) scale *= 0.5f;
  if (good_steps < static_cast<float>(p.growth_interval)) return;
  scale *= 2.0f;
  good_steps = 0.0f;
}

}  // namespace ridgeline
