// The AdamW update of one element.
//
// Constants: CS336 (1: that variant, 0: PyTorch's), SCALED (1: gradients have a factor; 2: a factor of 0 skips the
// step).
#pragma once

#include "params.h"

namespace ridgeline {

// p = (p decay_before - step m / (sqrt(v) root_scale + epsilon)) decay_after; factors that a variant lacks are 1.
struct Factors {
  float gradient, decay, root_scale, step;

  __device__ __forceinline__ bool skips() const { return SCALED == 2 && gradient == 0.0f; }
};

__device__ __forceinline__ Factors factors_of(const AdamWNumbers& p) {
  const float rate = p.scalars[0], first_correction = p.scalars[1];
  const float root = sqrtf(p.scalars[2]);
  Factors f;
  f.gradient = SCALED ? *p.gradient_scale : 1.0f;
  f.decay = 1.0f - rate * p.weight_decay;
  f.root_scale = CS336 ? 1.0f : 1.0f / root;
  f.step = rate * (CS336 ? root : 1.0f) / first_correction;
  return f;
}

// Root and quotient are off by an ulp or two, far less than the rounding of the sum with the parameter.
__device__ __forceinline__ void step(const AdamWNumbers& p, const Factors& f, float& parameter, float gradient,
                                     float& m, float& v) {
  const float g = SCALED ? gradient * f.gradient : gradient;
  m = p.keep_first * m + p.take_first * g;
  v = p.keep_second * v + p.take_second * (g * g);
  float root, inverse;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(v));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(CS336 ? root + p.epsilon : root * f.root_scale + p.epsilon));
  const float change = f.step * (m * inverse);
  parameter = CS336 ? (parameter - change) * f.decay : parameter * f.decay - change;
}

}  // namespace ridgeline
