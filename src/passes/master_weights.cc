#include "passes/master_weights.h"

#include <map>
#include <utility>
#include <vector>

#include "passes/rewrite.h"

namespace ridgeline {
namespace {

// Elements that one update takes at least: enough to keep a GPU busy, and few enough that updates
// can begin while gradients of other layers are still computed. Those of 16-bit gradients may
// become one kernel with the products that compute these (update_products.h), which wants more.
constexpr int64_t kLeastOfUpdate = int64_t{1} << 23, kLeastOfProducts = int64_t{1} << 25;

class Rewriter {
 public:
  explicit Rewriter(const Graph& graph)
      : graph_(graph), casts_(graph.value_count(), 0), narrow_(graph.value_count(), DType::f32) {
    for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
      if (!is_narrowed_weight(number)) continue;
      const uint32_t index = graph.index(graph.nodes()[number].inputs[0]);
      const DType dtype = graph.nodes()[number].outputs[0].dtype;
      if (casts_[index] > 0 && narrow_[index] != dtype) continue;  // a second dtype stays a cast
      narrow_[index] = dtype;
      ++casts_[index];
    }
    uses_ = use_counts(graph);
  }

  std::vector<Value> replace(const Site& site) const {
    if (site.node.op == Op::input) return narrowed_input(site);
    if (site.node.op == Op::cast) return stored_cast(site);
    if (site.node.op == Op::adamw_update) return update(site);
    return {};
  }

 private:
  bool is_narrowed_weight(uint32_t number) const {
    const Node& node = graph_.nodes()[number];
    if (node.op != Op::cast || !is_16_bit(node.outputs[0].dtype)) return false;
    const Node& source = graph_.node(node.inputs[0]);
    return source.op == Op::input && is_floating(source.outputs[0].dtype) &&
           graph_.input_info(node.inputs[0]).role == Role::parameter;
  }

  // Read in 16 bits and in no other way.
  bool is_narrow_only(uint32_t index) const {
    return casts_[index] > 0 && casts_[index] == uses_[index];
  }

  std::vector<Value> narrowed_input(const Site& site) const {
    const uint32_t index = site.node.first_value;
    if (!is_narrow_only(index)) return {};
    return {site.target.input(site.source.input_info({site.number, 0}),
                              {narrow_[index], site.node.outputs[0].shape})};
  }

  std::vector<Value> stored_cast(const Site& site) const {
    const uint32_t index = graph_.index(site.node.inputs[0]);
    const DType dtype = site.node.outputs[0].dtype;
    if (casts_[index] == 0 || narrow_[index] != dtype) return {};
    if (is_narrow_only(index)) return {site.inputs[0]};
    return {copy_of(site, site.node.inputs[0]).value()};
  }

  // The input that holds the 16 bits of a weight; made when it is asked for first.
  Tensor copy_of(const Site& site, Value weight) const {
    return input_of_parts(site.target, Role::copy, graph_.input_info(weight).parts,
                          {narrow_[graph_.index(weight)], graph_.type(weight).shape});
  }

  // The gradient before it was cast for the update; as the update wants it, flat.
  Tensor computed_gradient(const Site& site, Value gradient) const {
    Value value = gradient;
    while (graph_.node(value).op == Op::reshape) value = graph_.node(value).inputs[0];
    if (graph_.node(value).op != Op::cast) return site.now(gradient);
    const Tensor inner = site.now(graph_.node(value).inputs[0]);
    if (!is_16_bit(inner.dtype())) return site.now(gradient);
    return reshape(inner, {element_count(inner.shape())});
  }

  std::vector<Value> update(const Site& site) const {
    const auto spec = std::get<AdamWSpec>(site.node.attributes.detail);
    if (spec.copied) return {};
    const auto first = spec.first_parameter();
    const auto count = static_cast<uint32_t>(site.node.outputs.size()) / spec.results_of_each();
    struct Batch {
      std::vector<AdamWTensors> tensors;
      std::vector<uint32_t> numbers;
    };
    using Dtypes = std::pair<DType, DType>;  // of gradient and copy
    std::map<Dtypes, int64_t> elements;      // so far
    std::map<std::pair<Dtypes, int64_t>, Batch> batches;
    for (uint32_t i = 0; i < count; ++i) {
      const auto operand = [&](uint32_t kind) {
        return site.node.inputs[first + kind * count + i];
      };
      AdamWTensors each{.parameter = site.now(operand(0)),
                        .gradient = computed_gradient(site, operand(1)),
                        .first_moment = site.now(operand(2)),
                        .second_moment = site.now(operand(3))};
      const bool copied = casts_[graph_.index(operand(0))] > 0;
      if (copied) each.copy = copy_of(site, operand(0));
      const DType copy_dtype = copied ? each.copy.dtype() : DType::f32;
      const Dtypes dtypes{each.gradient.dtype(), copy_dtype};
      const int64_t least = is_16_bit(each.gradient.dtype()) ? kLeastOfProducts : kLeastOfUpdate;
      Batch& batch = batches[{dtypes, elements[dtypes] / least}];
      elements[dtypes] += element_count(each.parameter.shape());
      batch.tensors.push_back(each);
      batch.numbers.push_back(i);
    }
    std::vector<Value> results(site.node.outputs.size());
    for (const auto& [key, batch] : batches) {
      const auto updated =
          adamw_update(batch.tensors, site.input(0), spec.scaled ? site.input(1) : Tensor(), spec);
      for (size_t i = 0; i < updated.size(); ++i) {
        results[batch.numbers[i]] = updated[i].parameter.value();
        results[count + batch.numbers[i]] = updated[i].first_moment.value();
        results[2 * count + batch.numbers[i]] = updated[i].second_moment.value();
      }
    }
    return results;
  }

  const Graph& graph_;
  std::vector<uint32_t> casts_;  // of weights to their narrow dtype; by Graph::index
  std::vector<DType> narrow_;
  std::vector<uint32_t> uses_;
};

}  // namespace

Graph master_weights(const Graph& graph) {
  const Rewriter rewriter(graph);
  return rewrite(graph, [&](const Site& site) { return rewriter.replace(site); },
                 {.keep_dtypes = false, .keep_inputs = false});
}

}  // namespace ridgeline
