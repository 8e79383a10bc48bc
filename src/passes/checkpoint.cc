#include "passes/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "graph/scope.h"
#include "graph/stages.h"
#include "passes/rewrite.h"

namespace ridgeline {
namespace {

constexpr int64_t kNoRun = -1;

// The number at the end of "layers.3"; none: kNoRun.
int64_t layer_number(std::string_view path) {
  const std::string_view layer = layer_scope(path);
  const std::string_view digits = layer.substr(layer.rfind('.') + 1);
  int64_t number = kNoRun;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

class Checkpointer {
 public:
  Checkpointer(const Graph& graph, int64_t blocks)
      : graph_(graph),
        is_forward_(nodes_of_stages(graph, kForwardStage)),
        again_(graph.value_count()) {
    for (const Node& node : graph.nodes()) {
      const int64_t layer = layer_number(graph.scope_path(node));
      run_.push_back(layer == kNoRun ? kNoRun : layer / blocks);
    }
    find_kept();
  }

  Graph rewritten() {
    return rewrite(graph_, [&](const Site& site) -> std::vector<Value> {
      if (is_forward_[site.number]) return {};
      std::vector<Value> inputs;
      for (Value input : site.node.inputs) inputs.push_back(again(site, input));
      if (std::equal(inputs.begin(), inputs.end(), site.inputs.begin())) return {};
      return results_of(site, std::move(inputs));
    });
  }

  CheckpointReport report() const {
    return {.runs = static_cast<int64_t>(runs_.size()), .recomputed = recomputed_};
  }

 private:
  // Values of forward that are not computed again: those outside of all runs, those that another
  // run reads, outputs, what they are views of, and updates, which happen once.
  void find_kept() {
    is_kept_.assign(graph_.value_count(), false);
    const auto keep = [&](Value value) { is_kept_[graph_.index(value)] = true; };
    for (const Output& output : graph_.outputs()) keep(output.value);
    for (auto number = static_cast<uint32_t>(graph_.nodes().size()); number-- > 0;) {
      if (!is_forward_[number]) continue;
      const Node& node = graph_.nodes()[number];
      const bool is_leaf = info(node.op).kind == OpClass::leaf;
      for (uint32_t output = 0; output < node.outputs.size(); ++output)
        if (is_leaf || is_update(node.op) || run_[number] == kNoRun) keep({number, output});
      for (Value input : node.inputs) {
        const bool is_seen_through = is_view(node.op) && is_kept_[node.first_value];
        if (run_[input.node] != run_[number] || is_seen_through) keep(input);
      }
    }
  }

  // What a later stage reads instead of a value, in the target.
  Value again(const Site& site, Value value) {
    const Value now = site.became[graph_.index(value)];
    if (!is_forward_[value.node] || is_kept_[graph_.index(value)]) return now;
    std::optional<Value>& known = again_[graph_.index(value)];
    if (known) return *known;
    const Node& node = graph_.node(value);
    std::vector<Value> inputs;
    bool differs = false;
    for (Value input : node.inputs) {
      inputs.push_back(again(site, input));
      differs = differs || inputs.back() != site.became[graph_.index(input)];
    }
    Attributes attributes = node.attributes;
    if (info(node.op).kind == OpClass::pointwise) {
      attributes.detail = Again{};
      differs = true;
    }
    if (!differs) return *(known = now);
    site.target.enter_scope(graph_.scope_path(node));
    const Value first = site.target.add(node.op, std::move(inputs), std::move(attributes));
    site.target.enter_scope(graph_.scope_path(site.node));
    for (uint32_t i = 0; i < node.outputs.size(); ++i)
      again_[node.first_value + i] = Value{first.node, i};
    if (!is_view(node.op)) ++recomputed_;
    runs_.insert(run_[value.node]);
    return *known;
  }

  const Graph& graph_;
  const std::vector<bool> is_forward_;       // by node
  std::vector<int64_t> run_;                 // by node
  std::vector<bool> is_kept_;                // by Graph::index
  std::vector<std::optional<Value>> again_;  // in the target, by Graph::index
  std::set<int64_t> runs_;
  int64_t recomputed_ = 0;
};

}  // namespace

Graph checkpoint(const Graph& graph, int64_t blocks, CheckpointReport* report) {
  if (blocks < 1 || graph.stages().size() < 2) return graph;
  Checkpointer checkpointer(graph, blocks);
  Graph result = checkpointer.rewritten();
  if (report != nullptr) *report = checkpointer.report();
  return result;
}

}  // namespace ridgeline
