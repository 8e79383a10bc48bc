// Activation checkpointing: of each run of blocks only what enters it is kept for backward, which
// computes the rest again.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace ridgeline {

struct CheckpointReport {
  int64_t runs = 0;        // of blocks that are computed again
  int64_t recomputed = 0;  // nodes
};

// A block is what belongs to one layer by its scope ("layers.3..."), and `blocks` of them in a row
// share a checkpoint. Backward computes again whatever it reads of a run, from values that other
// runs read in forward, and from inputs: the same ops on the same operands, so results do not
// change by a bit. A value that no pointwise op leads to from there cannot be told from the one of
// forward, and is kept.
//
// Comes last of all passes, as others would join both computations into one.
Graph checkpoint(const Graph& graph, int64_t blocks, CheckpointReport* report = nullptr);

}  // namespace ridgeline
