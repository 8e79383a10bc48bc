#include "plan/plan.h"

#include <algorithm>

#include "graph/joins.h"
#include "plan/group_cost.h"
#include "plan/widen.h"

namespace ridgeline {
namespace {

constexpr uint32_t kNever = ~0u;
// Kernels that may start before one beside them has ended: more hide it better, and keep what it
// reads for longer.
constexpr uint32_t kSideDistance = 24;

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options)
      : graph_(graph), options_(options), life_(graph.value_count()) {}

  Plan run();

 private:
  struct Life {
    uint32_t first = kNever;  // kernel that writes it first; inputs: never
    uint32_t last = 0;
    uint32_t block = kNever;
  };

  void hoist_updates(FusedGraph& fused) const;
  bool reads_in_place(const Node& product) const;
  void choose_side();
  void join_collectives();
  void find_lives();
  void give_blocks();
  // An operand of the kernel that dies with it and may hold this result; none: kNever.
  uint32_t operand_to_replace(uint32_t number, const FusedResult& result) const;

  const Graph& graph_;
  const PlanOptions& options_;
  Plan plan_;
  std::vector<Life> life_;
};

// Updates move to the moment in which all that they read is there, and from which on nobody reads
// what they overwrite. Without them in the way, the order of the others stays.
void Planner::hoist_updates(FusedGraph& fused) const {
  std::vector<uint32_t> others;
  std::vector<std::vector<uint32_t>> after(fused.groups.size() + 1);  // so many others
  // Others that run until a storage is written, or read or written, for the last time so far.
  std::vector<size_t> written(graph_.value_count(), 0), touched(graph_.value_count(), 0);
  for (uint32_t number = 0; number < fused.groups.size(); ++number) {
    Group& group = fused.groups[number];
    const bool moves = group.kind == GroupKind::library && is_update(graph_.nodes()[group.node].op);
    size_t when = moves ? 0 : others.size() + 1;
    for (Value storage : group.reads) when = std::max(when, written[graph_.index(storage)]);
    for (Value storage : group.writes) when = std::max(when, touched[graph_.index(storage)]);
    for (Value storage : group.reads) {
      size_t& last = touched[graph_.index(storage)];
      last = std::max(last, when);
    }
    for (Value storage : group.writes)
      written[graph_.index(storage)] = touched[graph_.index(storage)] = when;
    if (moves) group.stage = when > 0 ? fused.groups[others[when - 1]].stage : 0;
    (moves ? after[when] : others).push_back(number);
  }
  std::vector<uint32_t> order = after[0];
  for (size_t i = 0; i < others.size(); ++i) {
    order.push_back(others[i]);
    order.insert(order.end(), after[i + 1].begin(), after[i + 1].end());
  }
  fused.keep(order);
}

// A product whose operands lie so that no library has to copy them: a copy would take memory that
// kernels beside it may be using.
bool Planner::reads_in_place(const Node& product) const {
  return std::all_of(product.inputs.begin(), product.inputs.end(), [&](Value input) {
    const Strides& strides = plan_.layouts[graph_.index(input)].strides;
    return graph_.node(input).op != Op::constant && (strides.back(0) == 1 || strides.back(1) == 1);
  });
}

// Products, folds of columns and updates without products, whose results no kernel of the main
// order reads, and whose operands none of them overwrites.
void Planner::choose_side() {
  std::vector<bool> is_touched(graph_.value_count()), is_written(graph_.value_count());  // later
  const auto any = [&](const std::vector<Value>& storages, const std::vector<bool>& marks) {
    return std::any_of(storages.begin(), storages.end(),
                       [&](Value storage) { return marks[graph_.index(storage)]; });
  };
  bool is_last = true;
  for (auto number = static_cast<uint32_t>(plan_.kernels.size()); number-- > 0;) {
    PlannedKernel& kernel = plan_.kernels[number];
    const Group& group = kernel.group;
    const Node& node = graph_.nodes()[group.node];
    const bool may_wait =
        group.kind == GroupKind::column ||
        (group.kind == GroupKind::library && ((is_update(node.op) && group.products.empty()) ||
                                              (node.op == Op::matmul && reads_in_place(node))));
    kernel.on_side =
        may_wait && !is_last && !any(group.writes, is_touched) && !any(group.reads, is_written);
    kernel.join = std::min(number + kSideDistance, static_cast<uint32_t>(plan_.kernels.size()));
    if (kernel.on_side) continue;
    is_last = false;
    for (Value storage : group.reads) is_touched[graph_.index(storage)] = true;
    for (Value storage : group.writes)
      is_touched[graph_.index(storage)] = is_written[graph_.index(storage)] = true;
  }
}

void Planner::join_collectives() {
  std::vector<Touched> steps(plan_.kernels.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const PlannedKernel& kernel = plan_.kernels[i];
    for (Value storage : kernel.group.reads) steps[i].reads.push_back(graph_.index(storage));
    for (Value storage : kernel.group.writes) steps[i].writes.push_back(graph_.index(storage));
    steps[i].is_collective = kernel.is_collective;
    steps[i].holds_operand =
        kernel.is_collective && holds_operand(graph_, plan_.layouts, kernel.group.node);
  }
  const std::vector<uint32_t> joins = find_joins(steps);
  for (size_t i = 0; i < steps.size(); ++i)
    if (plan_.kernels[i].is_collective) plan_.kernels[i].join = joins[i];
}

void Planner::find_lives() {
  for (uint32_t number = 0; number < plan_.kernels.size(); ++number) {
    const PlannedKernel& kernel = plan_.kernels[number];
    const bool is_beside = kernel.on_side || kernel.is_collective;
    const uint32_t over = is_beside ? kernel.join : number;  // when it has certainly run
    for (Value value : kernel.group.writes) {
      Life& life = life_[graph_.index(value)];
      if (life.first == kNever && graph_.node(value).op != Op::input) life.first = number;
      life.last = std::max(life.last, over);
    }
    for (Value value : kernel.group.reads) {
      Life& life = life_[graph_.index(value)];
      life.last = std::max(life.last, over);
    }
  }
  for (const Output& output : graph_.outputs()) {
    const Value storage = plan_.layouts[graph_.index(output.value)].storage;
    life_[graph_.index(storage)].last = static_cast<uint32_t>(plan_.kernels.size());
  }
}

uint32_t Planner::operand_to_replace(uint32_t number, const FusedResult& result) const {
  const FusedKernel& kernel = plan_.kernels[number].group.kernel;
  if (kernel.kind != FusedKind::row) return kNever;
  const Bytes size = byte_size(graph_.type(result.to.storage));
  if (size.count != element_count(kernel.domain) * info(result.to.dtype).size) return kNever;
  for (const FusedOperand& input : kernel.inputs) {
    if (input.is_position || input.offset != 0 || input.strides != result.to.strides) continue;
    const uint32_t index = graph_.index(input.storage);
    const Life& life = life_[index];
    const bool fits = life.block != kNever && life.last == number &&
                      byte_size(graph_.type(input.storage)) == size &&
                      info(input.dtype).size == info(result.to.dtype).size;
    const auto readers =
        std::count_if(kernel.inputs.begin(), kernel.inputs.end(), [&](const FusedOperand& other) {
          return !other.is_position && other.storage == input.storage;
        });
    if (fits && readers == 1 && plan_.blocks[life.block].last == number) return life.block;
  }
  return kNever;
}

void Planner::give_blocks() {
  std::vector<std::pair<uint32_t, size_t>> scratch_blocks;  // of kernels
  for (uint32_t number = 0; number < plan_.kernels.size(); ++number) {
    PlannedKernel& kernel = plan_.kernels[number];
    for (Value value : kernel.group.writes) {
      Life& life = life_[graph_.index(value)];
      if (life.first != number || life.block != kNever) continue;
      if (kernel.group.kind != GroupKind::library)
        for (const FusedResult& result : kernel.group.kernel.results)
          if (result.to.storage == value) life.block = operand_to_replace(number, result);
      if (life.block != kNever) {
        plan_.in_place[graph_.index(value)] = true;
        // Beyond this kernel in any case, so that no other result of it takes the same place.
        plan_.blocks[life.block].last = std::max(life.last, number + 1);
        continue;
      }
      life.block = static_cast<uint32_t>(plan_.blocks.size());
      plan_.blocks.push_back({byte_size(graph_.type(value)), number, life.last});
    }
    if (kernel.scratch.count == 0) continue;
    scratch_blocks.emplace_back(number, plan_.blocks.size());
    plan_.blocks.push_back({kernel.scratch, number, kernel.on_side ? kernel.join : number});
  }
  plan_.arena = place_blocks(plan_.blocks);
  plan_.least_arena = most_alive(plan_.blocks);
  for (uint32_t index = 0; index < life_.size(); ++index)
    if (life_[index].block != kNever)
      plan_.offsets[index] = plan_.blocks[life_[index].block].offset;
  for (const auto& [kernel, block] : scratch_blocks)
    plan_.kernels[kernel].scratch_offset = plan_.blocks[block].offset;
}

Plan Planner::run() {
  FusedGraph fused = fuse(graph_);
  widen_products(graph_, fused);
  plan_.epilogues = take_epilogues(graph_, fused, options_.epilogue, options_.product_kernel);
  take_update_products(graph_, fused, options_.update_products);
  const auto communicates = [&](const Group& group) {
    return group.kind == GroupKind::library && is_collective(graph_.nodes()[group.node].op);
  };
  const bool has_collectives = std::ranges::any_of(fused.groups, communicates);
  // An update behind its all-reduce would wait for it while there is work to do.
  if (options_.early_updates && !has_collectives) hoist_updates(fused);
  plan_.layouts = std::move(fused.layouts);
  plan_.refusals = std::move(fused.refusals);
  plan_.offsets.assign(graph_.value_count(), Plan::kNotInArena);
  plan_.in_place.assign(graph_.value_count(), false);

  const std::vector<Cost> costs = node_costs(graph_);
  plan_.stages = graph_.stages();
  for (Stage& stage : plan_.stages) stage.begin = stage.end = 0;
  for (Group& group : fused.groups) {
    PlannedKernel kernel;
    if (group.kind == GroupKind::library) {
      const Node& node = graph_.nodes()[group.node];
      std::vector<TensorType> types;
      for (Value input : node.inputs) types.push_back(graph_.type(input));
      if (options_.scratch) kernel.scratch = options_.scratch(node, types);
    } else {
      kernel.scratch = fused_scratch(group.kernel);
    }
    kernel.cost = group_cost(graph_, group, costs);
    kernel.is_collective = communicates(group);
    kernel.group = std::move(group);
    plan_.kernels.push_back(std::move(kernel));
  }
  if (options_.overlap) choose_side();
  if (has_collectives) join_collectives();
  for (const PlannedKernel& kernel : plan_.kernels) ++plan_.stages[kernel.group.stage].end;
  for (size_t stage = 1; stage < plan_.stages.size(); ++stage) {
    plan_.stages[stage].begin = plan_.stages[stage - 1].end;
    plan_.stages[stage].end += plan_.stages[stage].begin;
  }
  for (uint32_t number = 0; number < graph_.nodes().size(); ++number)
    if (graph_.nodes()[number].op != Op::constant && runs_kernel(graph_, plan_.layouts, number))
      ++plan_.eager_launches;
  for (Value value : graph_.inputs()) plan_.inputs += byte_size(graph_.type(value));
  find_lives();
  give_blocks();
  return std::move(plan_);
}

}  // namespace

Cost Plan::total() const {
  Cost sum;
  for (const PlannedKernel& kernel : kernels) sum += kernel.cost;
  return sum;
}

Plan make_plan(const Graph& graph, const PlanOptions& options) {
  return Planner(graph, options).run();
}

}  // namespace ridgeline
