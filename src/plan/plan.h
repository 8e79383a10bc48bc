// What runs, in which order, and where everything lies: Graph -> Plan.
//
//   const Plan plan = make_plan(graph, {.scratch = [&](auto&... x) { return device.scratch(x...);
//   }}); fmt::print("{}", explain(graph, plan)); CompiledExecutor executor(graph, plan, device);
#pragma once

#include <string>
#include <vector>

#include "cost/cost.h"
#include "cost/memory.h"
#include "plan/arena.h"
#include "plan/fuse.h"

namespace ridgeline {

struct PlanOptions {
  FuseOptions fuse = {};
  EmitOptions emit = {};
  ScratchOf scratch = {};  // of library calls; empty: nothing
};

struct PlannedKernel {
  Group group;
  Cost cost;
  int64_t scratch_offset = 0;  // in the arena, of a fused kernel that needs some
};

struct Plan {
  static constexpr int64_t kNotInArena = -1;

  EmitOptions emit;
  std::vector<Layout> layouts;         // by Graph::index
  std::vector<PlannedKernel> kernels;  // in the order in which they run
  std::vector<Stage> stages;           // begin and end count kernels
  std::vector<int64_t> offsets;        // by Graph::index: where a storage lies in the arena
  std::vector<ArenaBlock> blocks;      // of the arena
  std::vector<bool> in_place;          // by Graph::index: lies where an operand of its kernel lay
  std::vector<RefusalNote> refusals;
  uint32_t eager_launches = 0;  // that the same graph takes without fusion
  Bytes inputs, arena;
  Bytes least_arena;      // that any placement would need
  Bytes library_scratch;  // the most that one call takes

  Bytes peak() const { return inputs + arena + library_scratch; }
  Cost total() const;
};

Plan make_plan(const Graph& graph, const PlanOptions& options = {});

// Every kernel with its nodes, bytes and FLOPs; memory; and what was not fused, with reasons.
std::string explain(const Graph& graph, const Plan& plan);

}  // namespace ridgeline
