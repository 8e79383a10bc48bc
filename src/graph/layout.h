// Where each value lies: views share the storage of the value they look at.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace ridgeline {

struct Layout {
  Value storage;       // the value that owns the memory; itself unless this is a view
  int64_t offset = 0;  // in elements
  Strides strides;     // in elements
};

// Indexed by Graph::index. A reshape is a view where strides allow it and owns a copy otherwise.
std::vector<Layout> layouts(const Graph& graph);

// A constant is one scalar kept by the executor, not a tensor: it takes no memory of the ledger.
inline bool owns_memory(const Graph& graph, const std::vector<Layout>& layouts, Value value) {
  return layouts[graph.index(value)].storage == value && graph.node(value).op != Op::constant;
}

}  // namespace ridgeline
