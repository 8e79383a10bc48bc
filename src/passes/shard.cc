// Shards: a rank keeps its cut of the parameters, moments and summed gradients of every unit, and
// gathers the parameters of a unit while the unit before it computes.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/collective_kind.h"
#include "graph/scope.h"
#include "passes/distribute_parts.h"

namespace ridgeline {
namespace {

struct Unit {
  std::string name;                   // "layers.3", or its first parameter
  std::vector<uint32_t> members;      // of FoundUpdate::parameters
  std::vector<InputPart> parts = {};  // of all members
  int64_t elements = 0;
  uint32_t ready = 0;  // the node behind which all gradients are there
};

struct UnitPlace {  // of a parameter input
  uint32_t unit = 0;
  int64_t begin = 0;
};

// Nodes one after the other that read parameters of one unit, or views of them.
struct Visit {
  uint32_t unit = 0;
  uint32_t first_node = 0;
};

std::string name_of(Role role, const Unit& unit) {
  return tensor_name(role, "shard." + unit.name);
}

class Sharding {
 public:
  Sharding(const Graph& graph, const Distribution& how)
      : graph_(graph), how_(how), update_(find_update(graph)), became_(graph.value_count()) {
    find_units();
    find_views();
    find_visits();
    find_updated();
  }

  Graph run() {
    std::vector<bool> live = live_nodes(graph_);
    const std::vector<Stage> stages = graph_.stages();
    size_t stage = 1;
    make_inputs();
    for (uint32_t number = 0; number <= graph_.nodes().size(); ++number) {
      for (; stage < stages.size() && stages[stage].begin == number; ++stage)
        target_.begin_stage(stages[stage].name);
      if (number == graph_.nodes().size() || !live[number]) continue;
      target_.enter_scope(graph_.scope_path(graph_.nodes()[number]));
      gather_ahead(number);
      visit(number);
      scatter(number);
    }
    target_.enter_scope(graph_.current_scope());
    mark_outputs();
    // Views of whole parameters that nobody reads are left behind.
    return rewrite(target_, [](const Site&) -> std::vector<Value> { return {}; });
  }

 private:
  void find_units() {
    std::string last;
    for (uint32_t i = 0; i < update_.parameters.size(); ++i) {
      const UpdatedParameter& each = update_.parameters[i];
      const InputInfo& input = graph_.input_info(each.parameter);
      const std::string parameter = input.parts.front().parameter;
      const std::string layer(layer_scope(parameter));
      if (units_.empty() || layer != last)
        units_.push_back({.name = layer.empty() ? parameter : layer, .members = {}});
      last = layer;
      Unit& unit = units_.back();
      const Shape& shape = graph_.type(each.parameter).shape;
      const int64_t per_row = element_count(shape) / shape[0];
      places_[graph_.index(each.parameter)] = {static_cast<uint32_t>(units_.size() - 1),
                                               unit.elements};
      for (const InputPart& part : input.parts)
        unit.parts.push_back({part.parameter, part.rows * per_row});
      unit.members.push_back(i);
      unit.elements += each.elements;
      if (!each.is_zero) unit.ready = std::max(unit.ready, each.gradient.node);
      replaced_.push_back(each.parameter);
      replaced_.push_back(each.first_moment);
      replaced_.push_back(each.second_moment);
    }
  }

  // Views and casts of parameters are made anew for each visit: one that forward has made would
  // keep what was gathered for it until backward.
  void find_views() {
    is_view_.assign(graph_.nodes().size(), false);
    for (uint32_t number = 0; number < update_.first_node; ++number) {
      const Node& node = graph_.nodes()[number];
      is_view_[number] = (is_view(node.op) || node.op == Op::cast) && unit_of(node.inputs[0]);
    }
  }

  // The unit whose parameter, or a view of it, a value is.
  std::optional<uint32_t> unit_of(Value value) const {
    while (is_view_[value.node]) value = graph_.node(value).inputs[0];
    const auto found = places_.find(graph_.index(value));
    return found == places_.end() ? std::nullopt : std::optional(found->second.unit);
  }

  void find_visits() {
    for (uint32_t number = 0; number < update_.first_node; ++number) {
      if (is_view_[number]) continue;
      for (Value input : graph_.nodes()[number].inputs) {
        const auto unit = unit_of(input);
        if (unit && (visits_.empty() || visits_.back().unit != *unit))
          visits_.push_back({*unit, number});
      }
    }
  }

  // Nodes behind the update that show its results: they give way to shards.
  void find_updated() {
    is_updated_.assign(graph_.nodes().size(), false);
    is_updated_[update_.node] = true;
    for (uint32_t number = update_.node + 1; number < graph_.nodes().size(); ++number) {
      const Node& node = graph_.nodes()[number];
      if (is_view(node.op)) is_updated_[number] = is_updated_[node.inputs[0].node];
    }
  }

  Tensor shard_input(Role role, const Unit& unit, DType dtype) {
    const int64_t count = shard_of(unit.elements, 0, how_.ranks).count;
    return Tensor(target_, target_.input({name_of(role, unit), role, unit.parts, how_.ranks},
                                         {dtype, {count}}));
  }

  void make_inputs() {
    for (const Unit& unit : units_) {
      const DType dtype = graph_.type(update_.parameters[unit.members[0]].parameter).dtype;
      parameters_.push_back(shard_input(Role::parameter, unit, dtype));
      first_moments_.push_back(shard_input(Role::first_moment, unit, DType::f32));
      second_moments_.push_back(shard_input(Role::second_moment, unit, DType::f32));
    }
    gathered_.resize(units_.size());
    sums_.resize(units_.size());
  }

  // Before a visit begins, the unit of the next one is gathered; before the first one, its own too.
  void gather_ahead(uint32_t number) {
    for (; next_visit_ < visits_.size(); ++next_visit_) {
      const bool is_first = next_visit_ == 0;
      const Visit& before = visits_[is_first ? 0 : next_visit_ - 1];
      if (before.first_node > number) return;
      gather(next_visit_);
    }
  }

  void gather(size_t visit) {
    const uint32_t number = visits_[visit].unit;
    const Unit& unit = units_[number];
    const bool again = static_cast<bool>(gathered_[number]);
    if (again && !info(how_.strategy).shards_parameters) return;  // it is still there
    const std::string purpose = again ? fmt::format("{}, visit {}", unit.name, visit) : unit.name;
    const Tensor whole = all_gather(parameters_[number], unit.elements, {how_.ranks, purpose});
    target_.set_name(whole.value(), "gathered " + purpose);
    target_.set_scope(whole.value(), kCommunicationScope);
    ahead_[visit] = whole;
    gathered_[number] = whole;
  }

  // The value that stands for an old one: parameters are parts of what was gathered.
  Value now(Value old, uint32_t reader) {
    if (is_view_[old.node]) {
      const Node& view = graph_.node(old);
      return target_.add(view.op, {now(view.inputs[0], reader)}, view.attributes);
    }
    const auto found = places_.find(graph_.index(old));
    if (found == places_.end()) return became_[graph_.index(old)];
    const UnitPlace& place = found->second;
    size_t visit = 0;  // that the reader is part of
    for (size_t i = 0; i < visits_.size(); ++i)
      if (visits_[i].first_node <= reader && visits_[i].unit == place.unit) visit = i;
    Tensor whole = gathered_[place.unit];
    if (const auto of_visit = ahead_.find(visit); of_visit != ahead_.end())
      whole = of_visit->second;
    const Shape& shape = graph_.type(old).shape;
    const int64_t end = place.begin + element_count(shape);
    return reshape(slice(whole, 0, place.begin, end), shape).value();
  }

  void visit(uint32_t number) {
    const Node& node = graph_.nodes()[number];
    const bool is_replaced = node.op == Op::input && std::find(replaced_.begin(), replaced_.end(),
                                                               Value{number, 0}) != replaced_.end();
    if (is_replaced || is_view_[number] || (is_updated_[number] && number != update_.node)) return;
    if (number == update_.node) return update();
    std::vector<Value> results;
    if (number >= update_.first_node && reads_gradients(node)) {
      if (node.op == Op::reshape) return;  // of a gradient, for the update
      if (node.op != Op::sum_of_squares)
        throw Error(
            ErrorKind::unsupported,
            fmt::format("{} of whole gradients, of which ranks have shards", info(node.op).name));
      std::vector<Tensor> shards;
      for (const Tensor& sum : sums_)
        if (sum) shards.push_back(sum);
      const Tensor all = all_reduce(sum_of_squares(shards), {how_.ranks, "norm"});
      target_.set_scope(all.value(), kCommunicationScope);
      results = {all.value()};
    } else {
      std::vector<Value> inputs;
      for (Value input : node.inputs) inputs.push_back(now(input, number));
      const Value first = target_.add(node.op, std::move(inputs), node.attributes);
      for (uint32_t i = 0; i < node.outputs.size(); ++i) results.push_back({first.node, i});
    }
    if (!node.name.empty() && target_.node(results[0]).name.empty())
      target_.set_name(results[0], node.name);
    std::copy(results.begin(), results.end(), became_.begin() + node.first_value);
  }

  bool reads_gradients(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](Value input) {
      return std::ranges::any_of(update_.parameters, [&](const UpdatedParameter& each) {
        return input == each.gradient || input == each.flat;
      });
    });
  }

  void scatter(uint32_t number) {
    for (size_t i = 0; i < units_.size(); ++i) {
      const Unit& unit = units_[i];
      if (unit.ready != number || unit.ready == 0) continue;
      std::vector<Tensor> flats;
      for (uint32_t member : unit.members) {
        const UpdatedParameter& each = update_.parameters[member];
        // Zeros may come later in the graph than all other gradients.
        const Tensor gradient = each.is_zero
                                    ? expand(scalar(parameters_[i], 0), {each.elements})
                                    : Tensor(target_, became_[graph_.index(each.gradient)]);
        flats.push_back(reshape(gradient, {each.elements}));
      }
      const bool is_in_memory =
          flats.size() == 1 && update_.parameters[unit.members[0]].is_in_memory;
      const Tensor whole = is_in_memory ? flats[0] : concat(flats, 0);
      sums_[i] = reduce_scatter(whole, {how_.ranks, unit.name});
      target_.set_name(sums_[i].value(), "sum of " + unit.name);
      target_.set_scope(sums_[i].value(), kCommunicationScope);
      scattered_.push_back(i);
    }
  }

  // A unit without any gradient still decays.
  void add_zeros() {
    for (size_t i = 0; i < units_.size(); ++i) {
      if (units_[i].ready > 0) continue;
      sums_[i] = expand(scalar(parameters_[i], 0), parameters_[i].shape());
      scattered_.push_back(i);
    }
  }

  void update() {
    add_zeros();
    const Node& node = graph_.nodes()[update_.node];
    std::vector<Value> inputs;
    for (uint32_t i = 0; i < std::get<AdamWSpec>(node.attributes.detail).first_parameter(); ++i)
      inputs.push_back(became_[graph_.index(node.inputs[i])]);
    const Site site{graph_, update_.node, node, target_, inputs, became_};
    for (size_t begin = 0; begin < scattered_.size();) {
      std::vector<AdamWTensors> tensors;
      int64_t elements = 0;
      size_t end = begin;
      for (; end < scattered_.size() && elements < kElementsOfUpdate; ++end) {
        const size_t i = scattered_[end];
        elements += parameters_[i].shape()[0];
        tensors.push_back({.parameter = parameters_[i],
                           .gradient = sums_[i],
                           .first_moment = first_moments_[i],
                           .second_moment = second_moments_[i]});
      }
      const std::vector<AdamWTensors> updated = updated_tensors(site, tensors);
      for (size_t k = begin; k < end; ++k) {
        parameters_[scattered_[k]] = updated[k - begin].parameter;
        first_moments_[scattered_[k]] = updated[k - begin].first_moment;
        second_moments_[scattered_[k]] = updated[k - begin].second_moment;
      }
      begin = end;
    }
  }

  void mark_outputs() {
    bool are_marked = false;
    for (const Output& output : graph_.outputs()) {
      if (!is_updated_[output.value.node]) {
        target_.mark_output(output.name, became_[graph_.index(output.value)]);
      } else if (!are_marked) {
        are_marked = true;
        for (size_t i = 0; i < units_.size(); ++i) {
          const Unit& unit = units_[i];
          target_.mark_output(name_of(Role::parameter, unit), parameters_[i].value());
          target_.mark_output(name_of(Role::first_moment, unit), first_moments_[i].value());
          target_.mark_output(name_of(Role::second_moment, unit), second_moments_[i].value());
        }
      }
    }
  }

  const Graph& graph_;
  const Distribution& how_;
  FoundUpdate update_;
  std::vector<Unit> units_;
  std::map<uint32_t, UnitPlace> places_;  // by index of a parameter input
  std::vector<Value> replaced_;           // inputs
  std::vector<bool> is_view_;             // by node: of a parameter
  std::vector<Visit> visits_;
  std::vector<bool> is_updated_;  // by node

  Graph target_;
  std::vector<Value> became_;                                        // by index in the old graph
  std::vector<Tensor> parameters_, first_moments_, second_moments_;  // by unit: the newest
  std::vector<Tensor> gathered_, sums_;                              // by unit
  std::map<size_t, Tensor> ahead_;                                   // by visit: gathered for it
  size_t next_visit_ = 0;
  std::vector<size_t> scattered_;  // units, in the order in which their sums are made
};

}  // namespace

Graph shard(const Graph& graph, const Distribution& how) {
  return Sharding(graph, how).run();
}

}  // namespace ridgeline
