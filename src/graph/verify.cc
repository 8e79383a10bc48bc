// The invariants that every pass must leave intact.
#include <fmt/format.h>

#include <map>
#include <set>

#include "base/error.h"
#include "graph/collective_kind.h"
#include "graph/graph.h"
#include "graph/layout.h"

namespace ridgeline {
namespace {

void require(bool holds, const std::string& problem) {
  if (!holds) throw Error(ErrorKind::internal, "broken graph: " + problem);
}

// Every value has the version of its storage that was there when it was computed. An update makes a
// new version; whoever reads an old one afterwards would see the new content.
class Versions {
 public:
  explicit Versions(const Graph& graph)
      : graph_(graph),
        places_(layouts(graph)),
        newest_(graph.value_count(), 0),
        version_(graph.value_count(), 0) {}

  void run(uint32_t number, const std::string& place) {
    const Node& node = graph_.nodes()[number];
    for (Value input : node.inputs) require_newest(input, place);
    if (is_update(node.op)) require_alone(node, place);
    for (uint32_t output = 0; output < node.outputs.size(); ++output) {
      const uint32_t value = node.first_value + output;
      const uint32_t storage = storage_of(value);
      if (const auto updated = updated_input(node, output)) {
        require_whole(node.inputs[*updated], place);
        ++newest_[storage];
      }
      version_[value] = newest_[storage];
    }
  }

  void require_newest(Value value, const std::string& place) const {
    const uint32_t index = graph_.index(value);
    require(version_[index] == newest_[storage_of(index)],
            fmt::format("{} reads {} after it was updated in place", place, graph_.name(value)));
  }

 private:
  uint32_t storage_of(uint32_t index) const { return graph_.index(places_[index].storage); }

  // What is written must not be read through another input of the same node.
  void require_alone(const Node& node, const std::string& place) const {
    std::map<uint32_t, int> readers;
    for (Value input : node.inputs) ++readers[storage_of(graph_.index(input))];
    for (uint32_t output = 0; output < node.outputs.size(); ++output) {
      const Value input = node.inputs[*updated_input(node, output)];
      require(readers[storage_of(graph_.index(input))] == 1,
              fmt::format("{} updates {} and reads it twice", place, graph_.name(input)));
    }
  }

  void require_whole(Value input, const std::string& place) const {
    const Layout& layout = places_[graph_.index(input)];
    const TensorType& type = graph_.type(input);
    const bool whole = layout.offset == 0 && is_contiguous(type.shape, layout.strides) &&
                       byte_size(type) == byte_size(graph_.type(layout.storage)) &&
                       graph_.node(layout.storage).op != Op::constant;
    require(whole, fmt::format("{} updates {}, which is a part or a broadcast of other values",
                               place, graph_.name(input)));
  }

  const Graph& graph_;
  std::vector<Layout> places_;
  std::vector<uint32_t> newest_;   // by Graph::index of the storage
  std::vector<uint32_t> version_;  // by Graph::index
};

// Parts tell the rows of an input, and whatever belongs to a parameter has one to belong to.
void verify_inputs(const Graph& graph) {
  std::set<std::string> names, parameters;
  std::set<std::pair<Role, std::string>> parts;
  for (Value value : graph.inputs()) {
    const InputInfo& input = graph.input_info(value);
    const std::string place = "input " + input.name;
    require(names.insert(graph.node(value).name).second, place + " repeats a name");
    require(input.parts.empty() != info(input.role).has_parts,
            fmt::format("{} is called {} and has {} parts", place, info(input.role).name,
                        input.parts.size()));
    if (input.parts.empty()) continue;
    int64_t rows = 0;
    for (const InputPart& part : input.parts) {
      require(part.rows > 0, place + " has a part without rows");
      require(parts.emplace(input.role, part.parameter).second,
              fmt::format("{} holds the {} of {} a second time", place, info(input.role).name,
                          part.parameter));
      if (input.role == Role::parameter) parameters.insert(part.parameter);
      rows += part.rows;
    }
    const Shape& shape = graph.type(value).shape;
    const int64_t held = input.ranks > 1 ? shard_of(rows, 0, input.ranks).count : rows;
    require(shape.rank() > 0 && held == shape[0] && (input.ranks == 1 || shape.rank() == 1),
            fmt::format("{} has parts of {} rows in {}", place, rows, to_string(shape)));
  }
  for (const auto& [role, parameter] : parts)
    require(parameters.contains(parameter),
            fmt::format("there is a {} of {}, which is no parameter", info(role).name, parameter));
}

}  // namespace

void verify(const Graph& graph) {
  uint32_t values = 0;
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    const Node& node = graph.nodes()[number];
    const std::string place = fmt::format("node {} ({})", number, info(node.op).name);
    std::vector<TensorType> types;
    for (Value input : node.inputs) {
      require(input.node < number, place + " reads a later node");
      require(input.output < graph.nodes()[input.node].outputs.size(),
              place + " reads a missing output");
      types.push_back(graph.type(input));
    }
    require(node.outputs == infer_types(node.op, types, node.attributes),
            place + " has the wrong type");
    require(node.first_value == values, place + " breaks the numbering of values");
    values += static_cast<uint32_t>(node.outputs.size());
  }
  require(values == graph.value_count(), "value count");
  for (const Output& output : graph.outputs())
    require(output.value.node < graph.nodes().size() &&
                output.value.output < graph.node(output.value).outputs.size(),
            "output " + output.name + " does not exist");
  verify_inputs(graph);
  Versions versions(graph);
  for (uint32_t number = 0; number < graph.nodes().size(); ++number)
    versions.run(number, fmt::format("node {} ({})", number, info(graph.nodes()[number].op).name));
  for (const Output& output : graph.outputs())
    versions.require_newest(output.value, "output " + output.name);
  uint32_t begin = 0;
  for (const Stage& stage : graph.stages()) {
    require(stage.begin == begin && stage.end >= begin, "stage " + stage.name + " is out of order");
    begin = stage.end;
  }
}

}  // namespace ridgeline
