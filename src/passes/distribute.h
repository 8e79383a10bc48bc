// Data-parallel training steps: inserts collectives into the graph of one rank, which has a part of
// the batch. The graph is the same on all ranks.
//
//   Graph step = training_graph(config, {.loss_weight = 1.0 / 4});
//   step = distribute(step, {.strategy = ParallelStrategy::bucketed, .ranks = 4});
#pragma once

#include "base/units.h"
#include "cost/parallel_strategy.h"
#include "graph/graph.h"

namespace ridgeline {

struct Distribution {
  ParallelStrategy strategy = ParallelStrategy::bucketed;
  int ranks = 2;
  Bytes bucket{25'000'000};  // of gradients per collective; the first is smaller
};

// For complete training graphs with an AdamW update, before the passes for fusion. Updates read
// sums over all ranks in place of gradients, so the loss must be weighted with 1 / ranks. The first
// four strategies do not communicate the zeros that stand for missing gradients. Throws a usage
// error for a graph without an update.
//
// naive, flat, overlapped, bucketed (data_parallel.cc): all_reduce of gradients, in the order in
// which backward finishes them; parameters and moments are replicated.
// sharded, fsdp (shard.cc): parameters and moments are inputs that hold a rank's shard of a unit: a
// layer, or what precedes or follows the layers. They and the outputs are named after their unit:
// "shard.layers.3", "m.shard.layers.3". Each unit is gathered while the previous one computes;
// sharded keeps it until its backward is done, fsdp gathers it again for backward.
Graph distribute(const Graph& graph, const Distribution& distribution);

}  // namespace ridgeline
