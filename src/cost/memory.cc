#include "cost/memory.h"

#include <algorithm>

namespace ridgeline {
namespace {

void sort_largest_first(std::vector<Lifetime>& lifetimes) {
  std::stable_sort(lifetimes.begin(), lifetimes.end(),
                   [](const Lifetime& a, const Lifetime& b) { return a.bytes > b.bytes; });
}

}  // namespace

std::vector<Lifetime> MemoryProfile::at_peak() const {
  std::vector<Lifetime> found;
  for (const Lifetime& lifetime : lifetimes)
    if (lifetime.first_step <= peak_step && lifetime.last_step >= peak_step)
      found.push_back(lifetime);
  sort_largest_first(found);
  return found;
}

std::vector<Lifetime> MemoryProfile::alive_before(int64_t step) const {
  std::vector<Lifetime> found;
  for (const Lifetime& lifetime : lifetimes)
    if (lifetime.first_step < step && lifetime.last_step >= step) found.push_back(lifetime);
  sort_largest_first(found);
  return found;
}

MemoryProfile memory(const Graph& graph, const Schedule& schedule, const ScratchOf& scratch) {
  MemoryProfile profile;
  const auto end = static_cast<int64_t>(schedule.steps.size());
  std::vector<int64_t> last_step(graph.value_count(), end);
  for (int64_t step = 0; step < end; ++step)
    for (Value value : schedule.steps[static_cast<size_t>(step)].releases)
      last_step[graph.index(value)] = step;

  Bytes live;
  const auto begin_life = [&](Value value, int64_t first_step) {
    if (!owns_memory(graph, schedule.layouts, value)) return;
    const Bytes bytes = byte_size(graph.type(value));
    live += bytes;
    profile.lifetimes.push_back(
        {value, graph.name(value), bytes, first_step, last_step[graph.index(value)]});
  };

  const auto scratch_of = [&](uint32_t number) {
    const Node& node = graph.nodes()[number];
    if (!scratch || !runs_kernel(graph, schedule.layouts, number)) return Bytes{};
    std::vector<TensorType> inputs;
    for (Value value : node.inputs) inputs.push_back(graph.type(value));
    return scratch(node, inputs);
  };

  for (Value value : graph.inputs()) begin_life(value, -1);
  profile.inputs = live;
  size_t stage = 0;
  for (int64_t step = 0; step < end; ++step) {
    const Step& current = schedule.steps[static_cast<size_t>(step)];
    const Node& node = graph.nodes()[current.node];
    if (node.op != Op::input)
      for (uint32_t output = 0; output < node.outputs.size(); ++output)
        begin_life({current.node, output}, step);
    const Bytes needed = scratch_of(current.node);
    profile.live.push_back(live + needed);
    if (profile.live.back() > profile.peak) {
      profile.peak = profile.live.back();
      profile.peak_scratch = needed;
      profile.peak_step = static_cast<uint32_t>(step);
    }
    for (Value value : current.releases) live -= byte_size(graph.type(value));
    while (stage < schedule.stages.size() && schedule.stages[stage].end == step + 1) {
      profile.stage_end.push_back(live);
      ++stage;
    }
  }
  return profile;
}

}  // namespace ridgeline
