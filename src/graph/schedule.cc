#include "graph/schedule.h"

namespace ridgeline {

Schedule eager_schedule(const Graph& graph) {
  Schedule schedule{layouts(graph), {}, graph.stages()};
  constexpr uint32_t kForever = ~uint32_t{0};
  std::vector<uint32_t> last_use(graph.value_count(), 0);
  const auto storage_index = [&](Value value) {
    return graph.index(schedule.layouts[graph.index(value)].storage);
  };
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    const Node& node = graph.nodes()[number];
    for (Value input : node.inputs) last_use[storage_index(input)] = number;
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      last_use[storage_index({number, output})] = number;  // a result nobody reads dies at once
  }
  for (Value input : graph.inputs()) last_use[graph.index(input)] = kForever;
  for (const Output& output : graph.outputs()) last_use[storage_index(output.value)] = kForever;

  schedule.steps.resize(graph.nodes().size());
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    schedule.steps[number].node = number;
    for (uint32_t output = 0; output < graph.nodes()[number].outputs.size(); ++output) {
      const Value value{number, output};
      const uint32_t last = last_use[graph.index(value)];
      if (owns_memory(graph, schedule.layouts, value) && last != kForever)
        schedule.steps[last].releases.push_back(value);
    }
  }
  return schedule;
}

}  // namespace ridgeline
