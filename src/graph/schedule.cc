#include "graph/schedule.h"

#include <algorithm>

#include "graph/joins.h"

namespace ridgeline {
namespace {

// By node: where the work beside a collective waits for it.
std::vector<uint32_t> collective_joins(const Graph& graph, const std::vector<Layout>& layouts) {
  std::vector<Touched> steps(graph.nodes().size());
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    if (!runs_kernel(graph, layouts, number)) continue;
    const Node& node = graph.nodes()[number];
    Touched& step = steps[number];
    for (Value input : node.inputs)
      step.reads.push_back(graph.index(layouts[graph.index(input)].storage));
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      step.writes.push_back(graph.index(layouts[node.first_value + output].storage));
    step.is_collective = is_collective(node.op);
    step.holds_operand = holds_operand(graph, layouts, number);
  }
  return find_joins(steps);
}

}  // namespace

Schedule eager_schedule(const Graph& graph) {
  Schedule schedule{layouts(graph), {}, graph.stages()};
  constexpr uint32_t kForever = ~uint32_t{0};
  std::vector<uint32_t> last_use(graph.value_count(), 0);
  const auto storage_index = [&](Value value) {
    return graph.index(schedule.layouts[graph.index(value)].storage);
  };
  const std::vector<uint32_t> joins = collective_joins(graph, schedule.layouts);
  schedule.steps.resize(graph.nodes().size());
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    const Node& node = graph.nodes()[number];
    const auto use = [&](Value value) {
      uint32_t& last = last_use[storage_index(value)];
      last = std::max(last, joins[number]);
    };
    for (Value input : node.inputs) use(input);
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      use({number, output});  // a result nobody reads dies at once
    if (is_collective(node.op)) schedule.steps[joins[number]].joins.push_back(number);
  }
  for (Value input : graph.inputs()) last_use[graph.index(input)] = kForever;
  for (const Output& output : graph.outputs()) last_use[storage_index(output.value)] = kForever;

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
