// Lowers a traced graph to the one that is planned: runs every pass, in order.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "compile/ladder.h"
#include "dist/communicator.h"
#include "passes/checkpoint.h"
#include "passes/distribute.h"
#include "passes/flash.h"

namespace ridgeline {

// A function from a graph to an equal graph.
using Rewrite = std::function<Graph(const Graph&)>;

// Builds a graph, and applies `forward` to its forward part before taking gradients.
using Trace = std::function<Graph(const Rewrite& forward)>;

struct CompileOptions {
  Mode mode = Mode::vanilla;
  // The dtype of matrix products: bf16 and fp16 by autocast's casts; tf32 where the graph has fp32.
  // None: as in the graph.
  std::optional<DType> products = {};
  // The backward of the attention nodes that flash finds.
  BackwardAlgorithm backward = BackwardAlgorithm::single_pass;
  // How the step is distributed over ranks; none: a single rank.
  std::optional<Distribution> distribution = {};
  Communicator* communicator = nullptr;  // of the ranks; needed to run; outlives the executable
  // Activation checkpointing: backward recomputes this many consecutive layers from their input; 0:
  // no recomputation.
  int64_t checkpoint_blocks = 0;
  // The memory budget that fused plans meet by recomputing results; none: the device's.
  std::optional<Bytes> budget = {};
  // Called as compilation reaches "trace", "passes", "plan", "kernels".
  std::function<void(std::string_view)> stage = {};
  // Called with a sentence that explains a fallback.
  std::function<void(const std::string&)> message = {};
};

struct Lowered {
  Graph graph;
  FlashReport flash;            // which attentions were recognised
  CheckpointReport checkpoint;  // what backward recomputes
};

// Autocast and flash on the forward part, gradients as the trace takes them, then the passes that
// only fused graphs need. Does not depend on the device.
Lowered lower(const Trace& trace, const CompileOptions& options);

}  // namespace ridgeline
