// What runs, in which order, and where results are stored: Graph -> Plan.
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
  ScratchOf scratch = {};  // of library calls; empty: nothing
  // Decides which products take over work of the following kernel; empty: none.
  ChooseEpilogue epilogue = {};
  // Likewise, which products are computed inside the following kernel.
  ChooseEpilogue product_kernel = {};
  // Decides which updates compute gradients themselves; empty: none.
  ChooseUpdateProducts update_products = {};
  // Whether results that only updates and callers need may be computed concurrently with the rest.
  bool overlap = false;
  // Whether an update runs as soon as its gradients are ready, in any stage.
  bool early_updates = false;
};

struct PlannedKernel {
  Group group;
  Cost cost;
  Bytes scratch = {};
  int64_t scratch_offset = 0;  // in the arena, if it needs some
  bool on_side = false;        // overlaps the kernels that follow
  bool is_collective = false;  // likewise overlaps them
  uint32_t join = 0;           // the first kernel that waits for it; itself: no overlap
};

struct Plan {
  static constexpr int64_t kNotInArena = -1;

  std::vector<Layout> layouts;         // by Graph::index
  std::vector<PlannedKernel> kernels;  // in the order in which they run
  std::vector<Stage> stages;           // begin and end count kernels
  std::vector<int64_t> offsets;        // by Graph::index: of a storage in the arena
  std::vector<ArenaBlock> blocks;      // of the arena
  std::vector<bool> in_place;  // by Graph::index: reuses the memory of an operand of its kernel
  std::vector<RefusalNote> refusals;
  std::vector<EpilogueNote> epilogues;  // one for each product
  uint32_t eager_launches = 0;          // of the same graph without fusion
  Bytes inputs, arena;
  Bytes least_arena;  // that any placement would need

  Bytes peak() const { return inputs + arena; }
  Cost total() const;
};

Plan make_plan(const Graph& graph, const PlanOptions& options = {});

// Every kernel with its nodes, bytes and FLOPs; memory; and what was not fused, with reasons.
// `kernel_ms`: measured times, which are summed by kind of kernel; may be empty.
std::string explain(const Graph& graph, const Plan& plan, std::span<const double> kernel_ms = {});

}  // namespace ridgeline
