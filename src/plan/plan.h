// What runs, in which order, and where everything lies: Graph -> Plan.
//
//   const Plan plan = make_plan(graph);
//   fmt::print("{}", explain(graph, plan));
//   CompiledExecutor executor(graph, plan, device);
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cost/cost.h"
#include "cost/memory.h"
#include "plan/arena.h"
#include "plan/fuse.h"
#include "plan/take_epilogues.h"
#include "plan/update_products.h"

namespace ridgeline {

struct PlanOptions {
  FuseOptions fuse = {};
  EmitOptions emit = {};
  ScratchOf scratch = {};  // of library calls; empty: nothing
  // Decides where products take work of the kernel behind them; empty: nowhere.
  ChooseEpilogue epilogue = {};
  // Likewise, where products are computed inside of the kernel behind them.
  ChooseEpilogue product_kernel = {};
  // Decides which updates compute gradients themselves; empty: none.
  ChooseUpdateProducts update_products = {};
  // Whether results that only updates and callers wait for may be computed beside the rest.
  bool overlap = false;
  // Whether an update runs as soon as its gradients are there, in whichever stage that is.
  bool early_updates = false;
};

struct PlannedKernel {
  Group group;
  Cost cost;
  Bytes scratch = {};
  int64_t scratch_offset = 0;  // in the arena, if it needs some
  bool on_side = false;        // runs beside the kernels that follow,
  bool is_collective = false;  // so does a collective,
  uint32_t join = 0;           // and they wait for it from this one on; itself: at once
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
  std::vector<EpilogueNote> epilogues;  // one for each product
  uint32_t eager_launches = 0;          // that the same graph takes without fusion
  Bytes inputs, arena;
  Bytes least_arena;  // that any placement would need

  Bytes peak() const { return inputs + arena; }
  Cost total() const;
};

Plan make_plan(const Graph& graph, const PlanOptions& options = {});

// Every kernel with its nodes, bytes and FLOPs; memory; and what was not fused, with reasons.
// `kernel_ms`: measured times, which are summed up by kind of kernel; or none.
std::string explain(const Graph& graph, const Plan& plan, std::span<const double> kernel_ms = {});

}  // namespace ridgeline
