// From a traced graph to the one that is planned: every pass, in order.
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

// From a graph to an equal one.
using Rewrite = std::function<Graph(const Graph&)>;

// Builds a graph, and applies `forward` to its forward part before gradients are taken of it.
using Trace = std::function<Graph(const Rewrite& forward)>;

struct CompileOptions {
  Mode mode = Mode::vanilla;
  // What matrix products compute in: bf16 and fp16 by casts, as autocast inserts them; tf32 where
  // the graph has fp32. None: what the graph says.
  std::optional<DType> products = {};
  // How attentions that flash found take their gradient.
  BackwardAlgorithm backward = BackwardAlgorithm::single_pass;
  // What ranks do together; none: one rank alone.
  std::optional<Distribution> distribution = {};
  Communicator* communicator = nullptr;  // of the ranks; needed to run, and outlives what runs
  // Activation checkpointing: backward computes so many blocks in a row again from what entered
  // them; 0: it has everything that it reads.
  int64_t checkpoint_blocks = 0;
  // What a fused one is fitted to by computing results again; none: the device's.
  std::optional<Bytes> budget = {};
  // Told what begins: "trace", "passes", "plan", "kernels".
  std::function<void(std::string_view)> stage = {};
  // Told a fallback, in a sentence.
  std::function<void(const std::string&)> message = {};
};

struct Lowered {
  Graph graph;
  FlashReport flash;            // what became of attentions
  CheckpointReport checkpoint;  // what backward computes again
};

// Autocast and flash on the forward part, gradients as the trace takes them, then what only fused
// graphs need. No device has a say.
Lowered lower(const Trace& trace, const CompileOptions& options);

}  // namespace ridgeline
