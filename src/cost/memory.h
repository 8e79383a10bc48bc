// Memory of a schedule by liveness, without running anything.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/schedule.h"

namespace ridgeline {

// One piece of memory and the steps during which it lives; inputs live from before the first step.
struct Lifetime {
  Value value;
  std::string name;
  Bytes bytes;
  int64_t first_step = 0;  // -1: an input
  int64_t last_step = 0;   // the number of steps: still there at the end
};

struct MemoryProfile {
  std::vector<Lifetime> lifetimes;
  // While step i runs: its results and its scratch exist, its dead operands still do.
  std::vector<Bytes> live;
  std::vector<Bytes> stage_end;  // after the last step of each stage
  Bytes inputs;
  Bytes peak;
  Bytes peak_scratch;  // of the peak: what the kernel takes only while it runs
  uint32_t peak_step = 0;

  // What lives while the peak step runs, largest first.
  std::vector<Lifetime> at_peak() const;
  // What is computed before `step` and still needed from it on: for the first step of the backward
  // stage, what is saved for backward (with the inputs).
  std::vector<Lifetime> alive_before(int64_t step) const;
};

// What a device's kernel takes for a node beyond its outputs, for as long as it runs; empty:
// nothing.
using ScratchOf = std::function<Bytes(const Node& node, std::span<const TensorType> inputs)>;

MemoryProfile memory(const Graph& graph, const Schedule& schedule, const ScratchOf& scratch = {});

}  // namespace ridgeline
