// Which nodes share a kernel: Graph -> groups, in the order in which they run.
//
// Nodes are visited once, in order. Pointwise nodes are deferred until they are needed: a fused
// consumer recomputes them from their operands where that moves fewer bytes than storing the
// result; for other consumers, a group that computes them anyway stores them. A node may join a
// group only if everything it reads is computed in that group or in an earlier one, so no search
// for cycles is needed.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "graph/layout.h"
#include "plan/epilogue.h"
#include "plan/fused_kernel.h"

namespace ridgeline {

enum class GroupKind : uint8_t { library, row, column };

inline void add_once(std::vector<Value>& list, Value value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

struct Group {
  static constexpr uint32_t kNoProduct = ~0u;

  GroupKind kind = GroupKind::library;
  uint32_t stage = 0;
  uint32_t node = 0;  // of a library call; the first node of a fused group
  // What a product writes instead of its result: the result in a wider dtype, or that of its
  // epilogue.
  std::optional<Value> into = {};
  std::optional<Epilogue> epilogue = {};  // of a product
  // Of an update: by parameter, the product that computes its gradient inside the update
  // (update_products.h), or kNoProduct. Empty: none.
  std::vector<uint32_t> products = {};
  FusedKernel kernel;             // of a fused group
  std::vector<Value> reads = {};  // storages, each once
  std::vector<Value> writes = {};
};

enum class FusionRefusal : uint8_t {
  library_call,
  different_shape,
  different_stage,
  read_later,
  read_otherwise,
  overwritten,
  too_large,
  several_axes,
  too_few_rows,
  too_narrow,
};
std::string_view text_of(FusionRefusal refusal);

// A node that did not join a group, or that fits no group (group == kNoGroup).
struct RefusalNote {
  static constexpr uint32_t kNoGroup = ~0u;
  Value value;
  uint32_t group = kNoGroup;
  FusionRefusal why = FusionRefusal::library_call;
};

struct FusedGraph {
  std::vector<Layout>
      layouts;  // by Graph::index; also of values inside kernels, which have no memory
  std::vector<Group> groups;  // in the order in which they run
  std::vector<RefusalNote> refusals;

  // Keeps the groups with these numbers, in this order, and has refusals follow them. `gone_into`:
  // by old number, the group that does the work of one that is not kept, or kNoGroup; may be empty.
  void keep(const std::vector<uint32_t>& order, const std::vector<uint32_t>& gone_into = {});
};

FusedGraph fuse(const Graph& graph);

}  // namespace ridgeline
