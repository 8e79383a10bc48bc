// Training steps of several ranks that each have a part of the batch: collectives are inserted into
// the graph of one rank. The graph is the same on all ranks.
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
  Bytes bucket{25'000'000};  // of gradients that are reduced together; the first one is smaller
};

// For finished training graphs with AdamW's update, before what fusion needs. Updates read sums over
// all ranks in place of gradients, so that the loss is weighed with 1 / ranks. Zeros that stand for
// the gradient of a parameter without one are not communicated by the first four strategies. Throws
// a usage error for a graph without an update.
//
// naive, flat, overlapped, bucketed (data_parallel.cc): all_reduce of gradients, in the order in
// which backward finishes them; parameters and moments stay whole.
// sharded, fsdp (shard.cc): parameters and moments are inputs that hold a rank's shard of a unit: a
// layer, or what comes before and behind layers. They are called after their unit, "shard.layers.3"
// and "m.shard.layers.3", and so are the outputs. Units are gathered while the one before them
// computes; sharded keeps them until backward is done with them, fsdp gathers them again for
// backward.
Graph distribute(const Graph& graph, const Distribution& distribution);

}  // namespace ridgeline
