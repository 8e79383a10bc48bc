#include "passes/pack.h"

#include <map>
#include <optional>

#include "passes/rewrite.h"

namespace ridgeline {
namespace {

// A product x W^T, W a parameter of two axes that may be cast on its way.
struct Projection {
  uint32_t node = 0;  // of the product
  Value weight;
};

struct Pack {
  std::vector<Projection> members;
  std::vector<InputPart> parts;
  int64_t rows = 0;
};

// Where a weight begins in the input that replaces it.
struct Place {
  const Pack* pack = nullptr;
  int64_t begin = 0;
};

class Packer {
 public:
  explicit Packer(const Graph& graph) : graph_(graph), uses_(use_counts(graph)) {
    std::map<std::vector<uint32_t>, Pack> by_operand;
    for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
      const auto found = projection(number);
      if (!found) continue;
      const Value x = graph.nodes()[number].inputs[0];
      const auto dtype = [&](Value value) {
        return static_cast<uint32_t>(graph.type(value).dtype);
      };
      // As it is stored and as it is multiplied.
      const Value weight = found->weight, operand = graph.nodes()[number].inputs[1];
      by_operand[{x.node, x.output, dtype(weight), dtype(operand)}].members.push_back(*found);
    }
    for (auto& [key, pack] : by_operand)
      if (pack.members.size() > 1) packs_.push_back(std::move(pack));
    for (Pack& pack : packs_)
      for (const Projection& member : pack.members) {
        places_[graph.index(member.weight)] =
            places_[graph.index({member.node, 0})] = {&pack, pack.rows};
        const std::vector<InputPart>& parts = graph.input_info(member.weight).parts;
        pack.parts.insert(pack.parts.end(), parts.begin(), parts.end());
        pack.rows += graph.type(member.weight).shape[0];
      }
  }

  std::vector<Value> replace(const Site& site) const {
    const auto found = places_.find(graph_.index({site.number, 0}));
    if (found == places_.end()) return {};
    const auto [pack, begin] = found->second;
    const Tensor weights = packed(site, *pack);
    if (site.node.op == Op::input)
      return {slice(weights, 0, begin, begin + site.node.outputs[0].shape[0]).value()};
    const Tensor product = matmul(site.input(0), transpose(cast(weights, site.input(1).dtype())));
    const int axis = product.shape().rank() - 1;
    return {slice(product, axis, begin, begin + site.node.outputs[0].shape.back()).value()};
  }

 private:
  std::optional<Projection> projection(uint32_t number) const {
    const Node& product = graph_.nodes()[number];
    if (product.op != Op::matmul) return std::nullopt;
    Value value = product.inputs[1];
    if (!is_private(value) || graph_.node(value).op != Op::permute ||
        std::get<Axes>(graph_.node(value).attributes.detail).axes != Dims{1, 0})
      return std::nullopt;
    value = graph_.node(value).inputs[0];
    if (is_private(value) && graph_.node(value).op == Op::cast)
      value = graph_.node(value).inputs[0];
    if (!is_private(value) || graph_.node(value).op != Op::input ||
        graph_.input_info(value).role != Role::parameter)
      return std::nullopt;
    return Projection{number, value};
  }

  bool is_private(Value value) const { return uses_[graph_.index(value)] == 1; }

  Tensor packed(const Site& site, const Pack& pack) const {
    const TensorType& first = graph_.type(pack.members[0].weight);
    return input_of_parts(site.target, Role::parameter, pack.parts,
                          {first.dtype, {pack.rows, first.shape[1]}});
  }

  const Graph& graph_;
  std::vector<uint32_t> uses_;
  std::vector<Pack> packs_;
  std::map<uint32_t, Place> places_;  // of weights and products, by Graph::index
};

}  // namespace

Graph pack(const Graph& forward) {
  const Packer packer(forward);
  return rewrite(forward, [&](const Site& site) { return packer.replace(site); },
                 {.keep_inputs = false});
}

}  // namespace ridgeline
