#include "passes/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace ridgeline {
namespace {

constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

// Knows when storage is updated in place, so that no rule moves a read behind that moment. Storage
// is taken for shared wherever it could be: a reshape counts as a view even if it copies. What an
// update leaves is a version of its own, which may be read until the next update.
class UpdateGuard {
 public:
  UpdateGuard(const Graph& source, const Graph& target) : source_(source), target_(target) {
    const auto nodes = source.nodes();
    active_ =
        std::any_of(nodes.begin(), nodes.end(), [](const Node& n) { return is_update(n.op); });
    if (!active_) return;
    find_updates();
    find_last_reads();
  }

  // Storage that will be overwritten must stay the node's own.
  bool is_overwritten(uint32_t number) const {
    const Node& node = source_.nodes()[number];
    if (!active_ || is_update(node.op)) return false;
    for (uint32_t i = 0; i < node.outputs.size(); ++i)
      if (roots_[node.first_value + i] == node.first_value + i &&
          updated_at_[node.first_value + i] != kNever)
        return true;
    return false;
  }

  // Whether node `number` may become `results`, for which the target grew from `first_new` nodes
  // on. An update itself reads and shows what it overwrites.
  bool allows(uint32_t number, uint32_t first_new, std::span<const Value> results) {
    if (!active_) return true;
    extend();
    const Node& node = source_.nodes()[number];
    const uint32_t last = is_update(node.op) ? number : number + 1;  // overwritten before this
    for (uint32_t n = first_new; n < target_.nodes().size(); ++n)
      for (Value input : target_.nodes()[n].inputs)
        if (doomed_at(input) < last || reads_too_late_[input.node]) reads_too_late_[n] = true;
    for (uint32_t i = 0; i < results.size(); ++i) {
      if (reads_too_late_[results[i].node]) return false;
      if (is_update(node.op)) continue;
      if (doomed_at(results[i]) <= std::max(number, last_read_[node.first_value + i])) return false;
    }
    return true;
  }

  // Node `number` has become `results`.
  void settle(uint32_t number, std::span<const Value> results) {
    if (!active_) return;
    extend();
    const uint32_t first = source_.nodes()[number].first_value;
    for (uint32_t i = 0; i < results.size(); ++i)
      if (roots_[first + i] == first + i) {
        uint32_t& doom = doom_[target_roots_[target_.index(results[i])]];
        doom = std::min(doom, updated_at_[first + i]);
      }
  }

 private:
  static uint32_t root_of(const Graph& graph, const Node& node, uint32_t output,
                          const std::vector<uint32_t>& roots) {
    if (is_view(node.op)) return roots[graph.index(node.inputs[0])];
    return node.first_value + output;
  }

  void find_updates() {
    updated_at_.assign(source_.value_count(), kNever);
    for (uint32_t number = 0; number < source_.nodes().size(); ++number) {
      const Node& node = source_.nodes()[number];
      for (uint32_t output = 0; output < node.outputs.size(); ++output) {
        roots_.push_back(root_of(source_, node, output, roots_));
        if (const auto updated = updated_input(node, output))
          updated_at_[roots_[source_.index(node.inputs[*updated])]] = number;
      }
    }
  }

  // The last node that reads a value or a view of it.
  void find_last_reads() {
    last_read_.assign(source_.value_count(), 0);
    for (const Output& output : source_.outputs()) last_read_[source_.index(output.value)] = kNever;
    for (auto number = static_cast<uint32_t>(source_.nodes().size()); number-- > 0;) {
      const Node& node = source_.nodes()[number];
      for (Value input : node.inputs) {
        uint32_t& last = last_read_[source_.index(input)];
        last = std::max(last, number);
        if (is_view(node.op)) last = std::max(last, last_read_[node.first_value]);
      }
    }
  }

  void extend() {
    reads_too_late_.resize(target_.nodes().size());
    for (; nodes_seen_ < target_.nodes().size(); ++nodes_seen_) {
      const Node& node = target_.nodes()[nodes_seen_];
      for (uint32_t output = 0; output < node.outputs.size(); ++output) {
        target_roots_.push_back(root_of(target_, node, output, target_roots_));
        doom_.push_back(kNever);
      }
    }
  }

  // When the value's storage is overwritten. kNever is above every position, but an output is read
  // then: what is overwritten at all cannot stand in for an output.
  uint64_t doomed_at(Value value) const {
    const uint32_t doom = doom_[target_roots_[target_.index(value)]];
    return doom == kNever ? uint64_t{kNever} + 1 : doom;
  }

  const Graph& source_;
  const Graph& target_;
  bool active_ = false;
  std::vector<uint32_t> roots_, updated_at_, last_read_;  // by index in the source
  std::vector<uint32_t> target_roots_, doom_;             // by index in the target
  // By node of the target. What a rule left behind stays there for others: an equal node is the
  // same node.
  std::vector<bool> reads_too_late_;
  size_t nodes_seen_ = 0;  // of the target
};

void check_types(const Site& site, std::span<const Value> results, RewriteOptions options) {
  const std::string place = fmt::format("rewriting {}", site.source.name(Value{site.number, 0}));
  if (results.size() != site.node.outputs.size())
    throw Error(ErrorKind::internal, fmt::format("{}: {} results, expected {}", place,
                                                 results.size(), site.node.outputs.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorType& now = site.target.type(results[i]);
    const TensorType& before = site.node.outputs[i];
    if (now.shape != before.shape || (options.keep_dtypes && now.dtype != before.dtype))
      throw Error(ErrorKind::internal, fmt::format("{}: became {}, expected {}", place,
                                                   to_string(now), to_string(before)));
  }
}

// An input's name is its identity; other names go to what a node has become, unless that had one.
void pass_on_name(const Site& site, Value result) {
  if (site.node.name.empty()) return;
  const Node& now = site.target.node(result);
  const bool is_leaf = info(now.op).kind == OpClass::leaf;
  if (now.name.empty() && (!is_leaf || info(site.node.op).kind == OpClass::leaf))
    site.target.set_name(result, site.node.name);
}

// `rejected`: nodes of the result that rules made in vain.
Graph walk(const Graph& graph, const std::vector<bool>& live, const RewriteRule& rule,
           RewriteOptions options, std::vector<uint32_t>& rejected) {
  Graph target;
  UpdateGuard guard(graph, target);
  std::vector<Value> became(graph.value_count());
  const std::vector<Stage> stages = graph.stages();
  size_t stage = 1;  // the first one needs no beginning
  std::vector<Value> inputs;
  for (uint32_t number = 0; number <= graph.nodes().size(); ++number) {
    for (; stage < stages.size() && stages[stage].begin == number; ++stage)
      target.begin_stage(stages[stage].name);
    if (number == graph.nodes().size() || !live[number]) continue;
    const Node& node = graph.nodes()[number];
    inputs.clear();
    for (Value input : node.inputs) inputs.push_back(became[graph.index(input)]);
    const Site site{graph, number, node, target, inputs, became};
    target.enter_scope(graph.scope_path(node));
    const auto first_new = static_cast<uint32_t>(target.nodes().size());
    std::vector<Value> results;
    const bool may_change = node.op != Op::input || !options.keep_inputs;
    if (rule && may_change && !guard.is_overwritten(number)) results = rule(site);
    if (!results.empty()) check_types(site, results, options);
    if (!results.empty() && !guard.allows(number, first_new, results)) {
      for (uint32_t n = first_new; n < target.nodes().size(); ++n) rejected.push_back(n);
      results.clear();
    }
    if (results.empty()) results = results_of(site, inputs);
    guard.settle(number, results);
    pass_on_name(site, results[0]);
    std::copy(results.begin(), results.end(), became.begin() + node.first_value);
  }
  target.enter_scope(graph.current_scope());
  for (const Output& output : graph.outputs())
    target.mark_output(output.name, became[graph.index(output.value)]);
  return target;
}

}  // namespace

std::vector<bool> live_nodes(const Graph& graph, std::span<const uint32_t> rejected) {
  std::vector<bool> live(graph.nodes().size(), false), is_needed(live.size(), false);
  for (uint32_t number = 0; number < live.size(); ++number) {
    const Op op = graph.nodes()[number].op;
    is_needed[number] = op == Op::input || is_update(op);
  }
  for (uint32_t number : rejected) is_needed[number] = false;
  for (const Output& output : graph.outputs()) live[output.value.node] = true;
  for (auto number = static_cast<uint32_t>(live.size()); number-- > 0;) {
    const Node& node = graph.nodes()[number];
    if (is_needed[number]) live[number] = true;
    if (!live[number]) continue;
    for (Value input : node.inputs) live[input.node] = true;
  }
  return live;
}

std::vector<uint32_t> use_counts(const Graph& graph) {
  std::vector<uint32_t> counts(graph.value_count(), 0);
  const std::vector<bool> live = live_nodes(graph);
  for (uint32_t number = 0; number < live.size(); ++number)
    if (live[number])
      for (Value input : graph.nodes()[number].inputs) ++counts[graph.index(input)];
  for (const Output& output : graph.outputs()) ++counts[graph.index(output.value)];
  return counts;
}

std::vector<Value> results_of(const Site& site, std::vector<Value> inputs) {
  const Value first = site.target.add(site.node.op, std::move(inputs), site.node.attributes);
  std::vector<Value> results;
  for (uint32_t i = 0; i < site.node.outputs.size(); ++i) results.push_back({first.node, i});
  return results;
}

Graph rewrite(const Graph& graph, const RewriteRule& rule, RewriteOptions options) {
  std::vector<uint32_t> rejected, none;
  Graph result = walk(graph, live_nodes(graph), rule, options, rejected);
  // Rules leave behind what they have bypassed.
  const std::vector<bool> live = live_nodes(result, rejected);
  if (std::find(live.begin(), live.end(), false) != live.end())
    result = walk(result, live, nullptr, {}, none);
  verify(result);
  return result;
}

}  // namespace ridgeline
