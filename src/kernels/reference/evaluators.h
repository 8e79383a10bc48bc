// Shared by the oracle's evaluators of single ops; declares those in files of their own.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace ridgeline::reference {

using Data = std::vector<double>;

struct Operand {
  const Shape& shape;
  const Data& data;
};

struct Call {
  const Node& node;
  std::vector<Operand> inputs;
  const Shape& shape;  // of the result
};

using Results = std::vector<Data>;

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

inline double broadcast_element(const Operand& operand, const Dims& at) {
  const Dims source = broadcast_source(operand.shape, at);
  return operand.data[static_cast<size_t>(flat_index(operand.shape, source))];
}

template <class ElementAt>
Data fill(const Shape& shape, ElementAt element_at) {
  Data result(static_cast<size_t>(element_count(shape)));
  for (int64_t flat = 0; flat < static_cast<int64_t>(result.size()); ++flat)
    result[static_cast<size_t>(flat)] = element_at(coordinates(shape, flat));
  return result;
}

// indexed_ops.cc
Data gather(const Call& call);
Data scatter_add(const Call& call);
Data pick(const Call& call);
Data place(const Call& call);

// training_ops.cc
Data sum_of_squares(const Call& call);
Results adamw_update(const Call& call);
Data loss_scale_update(const Call& call);
// Returns the state of a loss scale after a step whose gradients have this norm.
Data after_step(Data state, double norm, const LossScaleSpec& spec);

// cache_ops.cc
Data argmax(const Call& call);
Data append(const Call& call);
Data advance(const Call& call);
Data ring_positions(const Call& call);
// Returns the largest position up to `last` whose row belongs in `slot` of a ring of `slots`.
int64_t position_in_slot(int64_t last, int64_t slot, int64_t slots);

Results cached_attention(const Call& call);

// attention_ops.cc
Results attention(const Call& call);
Results attention_gradient(const Call& call);

}  // namespace ridgeline::reference
