// Shared by the interpreter's evaluators of single ops; declares those in files of their own.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "kernels/reference/definitions.h"

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

// cache_ops.cc
Data argmax(const Call& call);
Data append(const Call& call);
Data advance(const Call& call);
Data ring_positions(const Call& call);
Results cached_attention(const Call& call);

// attention_ops.cc
Results attention(const Call& call);
Results attention_gradient(const Call& call);

}  // namespace ridgeline::reference
