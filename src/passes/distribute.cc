#include "passes/distribute.h"

#include <fmt/format.h>

#include "base/error.h"
#include "passes/distribute_parts.h"

namespace ridgeline {

std::string first_parameter(const Graph& graph, Value input) {
  return graph.input_info(input).parts.front().parameter;
}

std::vector<AdamWTensors> updated_tensors(const Site& site,
                                          const std::vector<AdamWTensors>& tensors) {
  const auto& spec = std::get<AdamWSpec>(site.node.attributes.detail);
  return adamw_update(tensors, site.input(0), spec.scaled ? site.input(1) : Tensor(), spec);
}

Graph distribute(const Graph& graph, const Distribution& distribution) {
  if (distribution.ranks < 1)
    throw Error(ErrorKind::usage, fmt::format("{} ranks were asked for", distribution.ranks),
                "give at least 1");
  return info(distribution.strategy).shards_moments ? shard(graph, distribution)
                                                    : data_parallel(graph, distribution);
}

}  // namespace ridgeline
