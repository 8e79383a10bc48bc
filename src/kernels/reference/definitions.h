// Coordinates of elements, and definitions of ops, that the oracle of single elements shares with
// the tests' oracle of whole graphs.
#pragma once

#include <cmath>
#include <vector>

#include "graph/graph.h"

namespace ridgeline::reference {

// The coordinates of element `flat` of `shape`.
inline Dims coordinates(const Shape& shape, int64_t flat) {
  Dims at = Dims::filled(shape.rank(), 0);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return at;
}

inline int64_t flat_index(const Shape& shape, const Dims& at) {
  int64_t flat = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) flat = flat * shape[axis] + at[axis];
  return flat;
}

// The coordinates in `shape` of the element at `at` of the shape that it is broadcast to.
inline Dims broadcast_source(const Shape& shape, const Dims& at) {
  Dims source = Dims::filled(shape.rank(), 0);
  for (int axis = 0; axis < source.rank(); ++axis)
    source[axis] = shape[axis] == 1 ? 0 : at[at.rank() - source.rank() + axis];
  return source;
}

// Returns the largest position up to `last` whose row belongs in `slot` of a ring of `slots`.
inline int64_t position_in_slot(int64_t last, int64_t slot, int64_t slots) {
  int64_t position = last;
  while (((position % slots) + slots) % slots != slot) --position;
  return position;
}

// Returns the state of a loss scale after a step whose gradients have this norm.
inline std::vector<double> after_step(std::vector<double> state, double norm,
                                      const LossScaleSpec& spec) {
  double& scale = state[static_cast<size_t>(LossScaleState::scale)];
  double& good_steps = state[static_cast<size_t>(LossScaleState::good_steps)];
  const bool is_taken = std::isfinite(norm), is_dynamic = spec.growth_interval > 0;
  if (!is_taken) state[static_cast<size_t>(LossScaleState::skipped_steps)] += 1;
  if (!is_dynamic) return state;
  good_steps = is_taken ? good_steps + 1 : 0;
  if (!is_taken) scale /= 2;
  if (good_steps < static_cast<double>(spec.growth_interval)) return state;
  scale *= 2;
  good_steps = 0;
  return state;
}

}  // namespace ridgeline::reference
