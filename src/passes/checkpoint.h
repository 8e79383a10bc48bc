// Activation checkpointing: only the inputs of each run of layers are kept for backward, which
// recomputes the rest.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace ridgeline {

struct CheckpointReport {
  int64_t runs = 0;        // of layers that are recomputed
  int64_t recomputed = 0;  // nodes
};

// Scopes ("layers.3...") tell which layer a node belongs to, and `blocks` consecutive layers share
// a checkpoint. Backward recomputes what it reads of a run, from values that other runs read in
// forward, and from inputs: the same ops on the same operands, so results are bitwise unchanged. A
// value that no pointwise op leads to from there cannot be distinguished from that of forward, and
// is kept.
//
// This must be the last pass, as others would merge the two computations.
Graph checkpoint(const Graph& graph, int64_t blocks, CheckpointReport* report = nullptr);

}  // namespace ridgeline
