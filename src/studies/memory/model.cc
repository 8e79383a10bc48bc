#include "studies/memory/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "graph/stages.h"

namespace ridgeline {
namespace {

constexpr MemoryKindInfo kKinds[] = {
    {MemoryKind::parameters, "parameters", "parameters"},
    {MemoryKind::copies, "parameter_copies", "16-bit copies of parameters"},
    {MemoryKind::gradients, "gradients", "gradients of parameters"},
    {MemoryKind::optimizer_state, "optimizer_state", "optimizer state"},
    {MemoryKind::activations, "activations", "activations"},
    {MemoryKind::activation_gradients, "activation_gradients", "gradients of activations"},
    {MemoryKind::data, "data", "tokens, targets, tables"},
    {MemoryKind::workspace, "workspace", "workspace of kernels"},
    {MemoryKind::gaps, "gaps", "gaps in the arena"},
    {MemoryKind::cache, "kv_cache", "keys and values of earlier tokens"},
};
static_assert(std::size(kKinds) == kMemoryKinds);

MemoryKind kind_of_input(Role role) {
  switch (role) {
    case Role::data:
      return MemoryKind::data;
    case Role::parameter:
      return MemoryKind::parameters;
    case Role::cache:
      return MemoryKind::cache;
    case Role::copy:
      return MemoryKind::copies;
    case Role::first_moment:
    case Role::second_moment:
    case Role::step_scalars:
      break;
  }
  return MemoryKind::optimizer_state;
}

// By value: whether it is a parameter's gradient, or becomes one by views, casts, scaling and
// concatenation alone.
std::vector<bool> parameter_gradients(const Graph& graph) {
  std::vector<bool> marked(graph.value_count());
  std::unordered_set<std::string> names;
  for (Value value : graph.inputs())
    for (const InputPart& part : graph.input_info(value).parts)
      names.insert(gradient_name(part.parameter));
  for (const Output& output : graph.outputs())
    if (names.contains(output.name)) marked[graph.index(output.value)] = true;
  for (auto number = static_cast<uint32_t>(graph.nodes().size()); number-- > 0;) {
    const Node& node = graph.nodes()[number];
    if (node.op == Op::adamw_update) {
      const AdamWSpec& spec = std::get<AdamWSpec>(node.attributes.detail);
      const size_t first = spec.first_parameter();
      const size_t count = (node.inputs.size() - first) / (spec.results_of_each() + 1);
      for (size_t i = 0; i < count; ++i) marked[graph.index(node.inputs[first + count + i])] = true;
    }
    const bool passes =
        is_view(node.op) || node.op == Op::concat || info(node.op).kind == OpClass::pointwise;
    if (!passes || !marked[graph.index({number, 0})]) continue;
    for (Value input : node.inputs)  // a scalar factor is not a gradient
      if (element_count(graph.type(input).shape) > 1) marked[graph.index(input)] = true;
  }
  return marked;
}

// By node: whether forward computes it, or backward recomputes it. A recomputed part begins with
// nodes marked Again and reads nothing else of backward.
std::vector<bool> computed_in_forward(const Graph& graph) {
  std::vector<bool> computed = nodes_of_stages(graph, kForwardStage);
  std::vector<bool> again(graph.nodes().size(), false);
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    const Node& node = graph.nodes()[number];
    if (computed[number]) continue;
    bool any = std::holds_alternative<Again>(node.attributes.detail), all = true;
    for (Value input : node.inputs) {
      any = any || again[input.node];
      all = all && (computed[input.node] || info(graph.node(input).op).kind == OpClass::leaf);
    }
    computed[number] = again[number] = any && all;
  }
  return computed;
}

// Returns the index of the last backward stage, or 0 if there is none.
size_t last_backward(const std::vector<Stage>& stages) {
  size_t last = 0;
  for (size_t stage = 0; stage < stages.size(); ++stage)
    if (stages[stage].name == kBackwardStage) last = stage;
  return last;
}

// The contents of a plan's arena over time.
class Arena {
 public:
  Arena(const Graph& graph, const Plan& plan, const std::vector<MemoryKind>& kinds)
      : graph_(graph), plan_(plan), kinds_(kinds) {}

  uint32_t fullest_moment() const {
    std::vector<int64_t> change(plan_.kernels.size() + 2);
    for (const ArenaBlock& block : plan_.blocks) {
      change[block.first] += block.bytes.count;
      change[block.last + 1] -= block.bytes.count;
    }
    int64_t live = 0, most = -1;
    uint32_t found = 0;
    for (uint32_t moment = 0; moment < plan_.kernels.size(); ++moment) {
      live += change[moment];
      if (live > most) found = moment;
      most = std::max(most, live);
    }
    return found;
  }

  // The blocks that are live in both kernels, by the kind of their last occupant.
  HeldMemory between(uint32_t before, uint32_t after) const {
    std::unordered_map<int64_t, MemoryKind> occupants;  // by offset: the latest
    for (uint32_t number = 0; number <= before; ++number) {
      const PlannedKernel& kernel = plan_.kernels[number];
      for (Value storage : kernel.group.writes)
        if (const int64_t offset = plan_.offsets[graph_.index(storage)];
            offset != Plan::kNotInArena)
          occupants[offset] = kinds_[graph_.index(storage)];
      if (kernel.scratch.count > 0) occupants[kernel.scratch_offset] = MemoryKind::workspace;
    }
    HeldMemory held;
    for (const ArenaBlock& block : plan_.blocks)
      if (block.first <= before && block.last >= after)
        held[occupants.at(block.offset)] += block.bytes;
    return held;
  }
  HeldMemory during(uint32_t kernel) const { return between(kernel, kernel); }

 private:
  const Graph& graph_;
  const Plan& plan_;
  const std::vector<MemoryKind>& kinds_;
};

}  // namespace

std::span<const MemoryKindInfo> memory_kinds() {
  return kKinds;
}

std::vector<MemoryKind> memory_kinds_of(const Graph& graph) {
  const std::vector<bool> is_gradient = parameter_gradients(graph);
  const std::vector<bool> is_activation = computed_in_forward(graph);
  std::vector<MemoryKind> kinds(graph.value_count());
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    const Node& node = graph.nodes()[number];
    const bool casts_parameter = node.op == Op::cast &&
                                 graph.node(node.inputs[0]).op == Op::input &&
                                 kinds[graph.index(node.inputs[0])] == MemoryKind::parameters;
    for (uint32_t output = 0; output < node.outputs.size(); ++output) {
      const uint32_t index = graph.index({number, output});
      kinds[index] = node.op == Op::input    ? kind_of_input(graph.input_info({number, 0}).role)
                     : casts_parameter       ? MemoryKind::copies
                     : is_gradient[index]    ? MemoryKind::gradients
                     : is_activation[number] ? MemoryKind::activations
                                             : MemoryKind::activation_gradients;
    }
  }
  return kinds;
}

Bytes HeldMemory::total() const {
  Bytes sum;
  for (Bytes each : bytes) sum += each;
  return sum;
}

ModelMemory account_model(const Graph& graph, const Schedule& schedule,
                          const MemoryProfile& profile) {
  const std::vector<MemoryKind> kinds = memory_kinds_of(graph);
  const auto held = [&](const std::vector<Lifetime>& lifetimes) {
    HeldMemory sum;
    for (const Lifetime& each : lifetimes) sum[kinds[graph.index(each.value)]] += each.bytes;
    return sum;
  };
  const std::vector<Stage>& stages = schedule.stages;
  const size_t backward = last_backward(stages);
  ModelMemory memory{.at_peak = held(profile.at_peak()),
                     .peak_moment = {},
                     .at_begin = held(profile.alive_before(0)),
                     .before_backward = held(profile.alive_before(stages[0].end)),
                     .after_backward = held(profile.alive_before(stages[backward].end))};
  memory.at_peak[MemoryKind::workspace] += profile.peak_scratch;
  const auto stage = std::find_if(stages.begin(), stages.end(),
                                  [&](const Stage& each) { return profile.peak_step < each.end; });
  const uint32_t node = schedule.steps[profile.peak_step].node;
  memory.peak_moment = fmt::format("{} of {}", info(graph.nodes()[node].op).name, stage->name);
  return memory;
}

ModelMemory account_model(const Graph& graph, const Plan& plan) {
  const std::vector<MemoryKind> kinds = memory_kinds_of(graph);
  const Arena arena(graph, plan, kinds);
  const uint32_t fullest = arena.fullest_moment();
  HeldMemory inputs;
  for (Value value : graph.inputs())
    inputs[kinds[graph.index(value)]] += byte_size(graph.type(value));
  const auto with_inputs = [&](HeldMemory held) {
    for (size_t kind = 0; kind < kMemoryKinds; ++kind) held.bytes[kind] += inputs.bytes[kind];
    return held;
  };
  const auto after_stage = [&](size_t stage) {
    const uint32_t end = plan.stages[std::min(stage, plan.stages.size() - 1)].end;
    return with_inputs(end > 0 ? arena.between(end - 1, end) : HeldMemory{});
  };
  const Group& group = plan.kernels[fullest].group;
  const std::string kernel = group.kind == GroupKind::library
                                 ? std::string(info(graph.nodes()[group.node].op).name)
                                 : group.kernel.name;
  ModelMemory memory{.at_peak = with_inputs(arena.during(fullest)),
                     .peak_moment = fmt::format("{} of {}", kernel, plan.stages[group.stage].name),
                     .at_begin = inputs,
                     .before_backward = after_stage(0),
                     .after_backward = after_stage(last_backward(plan.stages))};
  memory.at_peak[MemoryKind::gaps] = plan.peak() - memory.peak();
  return memory;
}

}  // namespace ridgeline
