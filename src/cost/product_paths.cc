#include "cost/product_paths.h"

#include <algorithm>

#include "cost/cost.h"

namespace ridgeline {

std::vector<PathMacs> product_paths(const Graph& graph, const Stage& stage,
                                    const ProductPathOf& path_of) {
  const std::vector<Cost> costs = node_costs(graph);
  std::vector<PathMacs> paths;
  for (uint32_t number = stage.begin; number < stage.end; ++number) {
    if (!(costs[number].macs > 0)) continue;
    const Node& node = graph.nodes()[number];
    const ProductPath path = path_of(node.op, graph.type(node.inputs.at(0)).dtype);
    const auto known = std::find_if(paths.begin(), paths.end(),
                                    [&](const PathMacs& each) { return each.path == path; });
    PathMacs& to = known == paths.end() ? paths.emplace_back(PathMacs{path}) : *known;
    to.macs += costs[number].macs;
  }
  return paths;
}

}  // namespace ridgeline
