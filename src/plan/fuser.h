// The walk over the nodes that decides which of them share a kernel; see fuse.h.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "plan/draft.h"
#include "plan/fuse.h"

namespace ridgeline {

inline constexpr int32_t kNowhere = -2;  // home of a value that no group computes yet
inline constexpr int32_t kGiven = -1;    // home of a value that exists before the first group
inline constexpr double kImpossible = 1e300;

inline constexpr int kWaitingWeight = 32;     // limit of a deferred pointwise expression
inline constexpr int kRecomputedWeight = 16;  // limit of one that is recomputed
inline constexpr size_t kMostInputs = 40;     // of one kernel
inline constexpr size_t kMostSteps = 160;
inline constexpr size_t kCandidates = 6;  // groups that a node tries to join
inline constexpr uint32_t kRecent = 8;    // maximum age of a group that only shares an input

class Fuser {
 public:
  explicit Fuser(const Graph& graph);

  FusedGraph run();

 private:
  struct Facts {  // of a value
    int32_t home = kNowhere;
    uint32_t step = 0;  // there
    bool stored = false;
    int32_t last_reader = kNowhere;  // the last fused group that reads it
    std::vector<int32_t> updates;    // the groups that overwrote its storage, in order
    int waiting_weight = 0;          // of deferred pointwise values and nested concatenations
  };
  // What a node computes over: a domain, and the kind of group it needs.
  struct Work {
    Shape domain;
    GroupKind kind = GroupKind::row;
  };

  Facts& facts(Value value) { return facts_[graph_.index(value)]; }
  const TensorType& type(Value value) const { return graph_.type(value); }
  double bytes(Value value) const { return static_cast<double>(byte_size(type(value)).count); }
  bool owns(Value value) const { return owns_memory(graph_, result_.layouts, value); }
  Value storage(Value value) const { return result_.layouts[graph_.index(value)].storage; }
  // The value behind views that do not copy.
  Value behind_views(Value value) const {
    while (is_view(graph_.node(value).op) && !owns(value)) value = graph_.node(value).inputs[0];
    return value;
  }

  // Whether generated code can compute the value elementwise from its operands.
  bool is_pointwise(Value value) const;
  // Whether a pointwise node just copies its operand.
  bool is_copy(const Node& node) const {
    return node.op == Op::reshape || info(node.op).kind == OpClass::reduction;
  }
  Work work_of(Value value) const;

  bool readable(uint32_t group, Value value);
  double recompute_bytes(uint32_t group, Value value, double limit);
  std::optional<uint32_t> resolve(uint32_t group, Value value, Access access);
  std::optional<uint32_t> compute(uint32_t group, Value value, const Access& access);
  std::optional<uint32_t> load(uint32_t group, Value value, const Access& access);
  std::optional<uint32_t> blocked(Value value, FusionRefusal why);

  bool add_node(uint32_t group, Value value, const Work& work);
  bool try_join(uint32_t group, Value value, const Work& work);
  std::vector<uint32_t> candidates(Value value, const Work& work);
  bool place_if_possible(Value value);
  bool place_operand(Value value);
  void place(Value value);
  void settle(uint32_t group, const Draft::Mark& mark);

  void store(Value value);
  // Concatenations, in fuse_concat.cc.
  struct Filling {  // a value that is computed directly into a concatenation
    Value source;
    Layout region;
    std::optional<FusedOperand> to = {};  // by a generated kernel; none: by a library call
  };
  void find_nested_concats();
  Value source_of(Value part) const;
  bool is_alone(Value part) const;
  std::optional<Layout> region_of_source(Value part, Layout region) const;
  bool collect(uint32_t concat, const Layout& region, std::vector<Filling>& fillings);
  bool writes_into(Value source, const Layout& region) const;
  static Strides column_strides(const Shape& domain);
  std::optional<FusedOperand> operand_in(const Filling& filling);
  bool store_parts(uint32_t number);
  void put_together(uint32_t number);
  void wait_or_place(Value value);
  void call_library(uint32_t number);
  void visit(uint32_t number);
  FusedGraph finish();

  const Graph& graph_;
  FusedGraph result_;
  std::vector<Facts> facts_;     // by Graph::index
  std::vector<Value> values_;    // likewise
  std::vector<uint32_t> uses_;   // likewise: number of reads
  std::vector<bool> is_nested_;  // by node: a concatenation that is only a part of another one
  std::vector<bool> feeds_collective_;  // by node: a bucket of gradients, if it is a concatenation
  std::vector<std::unique_ptr<Draft>> drafts_;
  uint32_t stage_ = 0;
  Value blocked_by_;
  FusionRefusal why_ = FusionRefusal::read_otherwise;
};

}  // namespace ridgeline
