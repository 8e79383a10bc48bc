#include "plan/plan.h"

#include <algorithm>

#include "plan/op_text.h"

namespace ridgeline {
namespace {

constexpr uint32_t kNever = ~0u;

// Distinct elements that a walk over the domain touches.
double touched_bytes(const Shape& domain, const FusedOperand& operand) {
  if (operand.is_position) return 0;
  double count = 1;
  for (int axis = 0; axis < domain.rank(); ++axis)
    if (operand.strides[axis] != 0) count *= static_cast<double>(domain[axis]);
  return count * info(operand.dtype).size;
}

Cost fused_cost(const FusedKernel& kernel) {
  Cost cost;
  for (const FusedOperand& input : kernel.inputs) cost.bytes += touched_bytes(kernel.domain, input);
  for (const FusedResult& result : kernel.results)
    cost.bytes += touched_bytes(kernel.domain, result.to);
  std::vector<double> elements;  // of each step
  const auto all = static_cast<double>(kernel.rows() * kernel.columns());
  for (const FusedStep& step : kernel.steps) {
    double count = 1;
    if (step.kind == FusedStep::Kind::load)
      count = touched_bytes(kernel.domain, kernel.inputs[step.operand]) / info(step.dtype).size;
    if (step.kind == FusedStep::Kind::compute)
      for (uint32_t input : step.inputs) count = std::max(count, elements[input]);
    if (step.kind == FusedStep::Kind::fold) {
      cost.flops += all;
      count = static_cast<double>(kernel.kind == FusedKind::row ? kernel.rows() : kernel.columns());
    }
    if (step.kind == FusedStep::Kind::compute && step.op != Op::cast) cost.flops += count;
    elements.push_back(count);
  }
  return cost;
}

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

  void find_lives();
  void give_blocks();
  // An operand of the kernel that dies with it and may hold this result; none: kNever.
  uint32_t operand_to_replace(uint32_t number, const FusedResult& result) const;

  const Graph& graph_;
  const PlanOptions& options_;
  Plan plan_;
  std::vector<Life> life_;
};

void Planner::find_lives() {
  for (uint32_t number = 0; number < plan_.kernels.size(); ++number) {
    const Group& group = plan_.kernels[number].group;
    for (Value value : group.writes) {
      Life& life = life_[graph_.index(value)];
      if (life.first == kNever && graph_.node(value).op != Op::input) life.first = number;
      life.last = number;
    }
    for (Value value : group.reads) life_[graph_.index(value)].last = number;
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
    if (kernel.group.kind == GroupKind::library) continue;
    const Bytes scratch = fused_scratch(kernel.group.kernel);
    if (scratch.count == 0) continue;
    scratch_blocks.emplace_back(number, plan_.blocks.size());
    plan_.blocks.push_back({scratch, number, number});
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
  FusedGraph fused = fuse(graph_, options_.fuse);
  plan_.emit = options_.emit;
  plan_.layouts = std::move(fused.layouts);
  plan_.refusals = std::move(fused.refusals);
  plan_.offsets.assign(graph_.value_count(), Plan::kNotInArena);
  plan_.in_place.assign(graph_.value_count(), false);

  const std::vector<Cost> costs = node_costs(graph_);
  plan_.stages = graph_.stages();
  for (Stage& stage : plan_.stages) stage.begin = stage.end = 0;
  for (Group& group : fused.groups) {
    const bool is_call = group.kind == GroupKind::library;
    const Node& node = graph_.nodes()[group.node];
    if (is_call && options_.scratch) {
      std::vector<TensorType> types;
      for (Value input : node.inputs) types.push_back(graph_.type(input));
      plan_.library_scratch = std::max(plan_.library_scratch, options_.scratch(node, types));
    }
    const Cost cost = is_call ? costs[group.node] : fused_cost(group.kernel);
    ++plan_.stages[group.stage].end;
    plan_.kernels.push_back({std::move(group), cost});
  }
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
