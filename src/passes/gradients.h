// The gradients that updates read, for passes over training graphs of several ranks.
#pragma once

#include <optional>
#include <vector>

#include "graph/tensor.h"

namespace ridgeline {

struct UpdatedParameter {
  Value parameter;                    // an input
  Value flat;                         // its gradient as the update reads it: flat
  Value gradient;                     // its gradient before flattening
  Value first_moment, second_moment;  // inputs
  int64_t elements = 0;
  bool is_zero = false;      // the loss does not depend on the parameter
  bool is_in_memory = true;  // contiguous; else one broadcast number, or a strided view
};

struct FoundUpdate {
  uint32_t node = 0;
  uint32_t stage = 0;                        // the one that reads sums over ranks
  uint32_t first_node = 0;                   // of that stage
  std::vector<UpdatedParameter> parameters;  // in the update's order
};

// Throws a usage error unless there is exactly one update, without copies, in a separate stage.
FoundUpdate find_update(const Graph& graph);

// The minimum number of elements per update: enough to keep a device busy, and few enough that
// updates begin while others still wait for their gradients.
inline constexpr int64_t kElementsOfUpdate = int64_t{1} << 23;

}  // namespace ridgeline
