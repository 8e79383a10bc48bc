// Predicts the memory of a schedule by liveness analysis.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/schedule.h"

namespace ridgeline {

// A block of memory and the steps during which it is live.
struct Lifetime {
  Value value;
  std::string name;
  Bytes bytes;
  int64_t first_step = 0;  // -1: an input, live before the first step
  int64_t last_step = 0;   // the number of steps: live at the end
};

struct MemoryProfile {
  std::vector<Lifetime> lifetimes;
  // Live bytes while step i runs, with its results, its scratch, and operands that it releases.
  std::vector<Bytes> live;
  std::vector<Bytes> stage_end;  // after the last step of each stage
  Bytes inputs;
  Bytes peak;
  Bytes peak_scratch;  // the part of the peak that is scratch
  uint32_t peak_step = 0;

  // Everything live while the peak step runs, largest first.
  std::vector<Lifetime> at_peak() const;
  // Everything allocated before `step` and live in it, largest first: for the first step of the
  // backward stage, the inputs and what is saved for backward.
  std::vector<Lifetime> alive_before(int64_t step) const;
};

// Scratch of a device's kernel for a node; an empty function: none.
using ScratchOf = std::function<Bytes(const Node& node, std::span<const TensorType> inputs)>;

MemoryProfile memory(const Graph& graph, const Schedule& schedule, const ScratchOf& scratch = {});

}  // namespace ridgeline
