#include "plan/recompute.h"

#include <algorithm>
#include <unordered_map>

#include "passes/rewrite.h"

namespace ridgeline {
namespace {

bool is_pointwise(Op op) {
  return info(op).kind == OpClass::pointwise;
}

struct Candidate {
  Value value;
  double worth = 0;  // bytes that it frees for each that is moved to have it again
};

// What a plan says about the values of its graph.
class Facts {
 public:
  Facts(const Graph& graph, const Plan& plan)
      : graph_(graph), plan_(plan), last_stage_(graph.value_count(), 0) {
    stage_of_.resize(graph.nodes().size());
    const std::vector<Stage> stages = graph.stages();
    for (uint32_t stage = 0; stage < stages.size(); ++stage)
      for (uint32_t node = stages[stage].begin; node < stages[stage].end; ++node)
        stage_of_[node] = stage;
    for (const PlannedKernel& kernel : plan.kernels)
      for (Value storage : kernel.group.reads) {
        uint32_t& last = last_stage_[graph.index(storage)];
        last = std::max(last, kernel.group.stage);
      }
    for (const Output& output : graph.outputs()) {
      const Value storage = plan.layouts[graph.index(output.value)].storage;
      last_stage_[graph.index(storage)] = kForever;
    }
  }

  uint32_t stage_of(uint32_t node) const { return stage_of_[node]; }
  double bytes(Value value) const {
    return static_cast<double>(byte_size(graph_.type(value)).count);
  }
  Value storage(Value value) const { return plan_.layouts[graph_.index(value)].storage; }
  // Whether the value has memory, and for how long.
  bool is_kept(Value value) const {
    return graph_.node(value).op == Op::input ||
           plan_.offsets[graph_.index(storage(value))] != Plan::kNotInArena;
  }
  uint32_t last_stage(Value value) const {
    return graph_.node(storage(value)).op == Op::input ? kForever
                                                       : last_stage_[graph_.index(storage(value))];
  }

  // Values that outlive their stage and that pointwise work gives again, the most worthwhile first.
  std::vector<Candidate> candidates() const {
    std::vector<Candidate> found;
    for (uint32_t number = 0; number < graph_.nodes().size(); ++number) {
      const Value value{number, 0};
      const Op op = graph_.nodes()[number].op;
      if (!is_pointwise(op) && op != Op::concat) continue;
      const uint32_t last = last_stage(value);
      if (storage(value) != value || !is_kept(value) || last == kForever ||
          last <= stage_of_[number])
        continue;
      if (const auto moved = bytes_to_have_again(value, last))
        found.push_back({value, bytes(value) / (*moved + bytes(value))});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& a, const Candidate& b) { return a.worth > b.worth; });
    return found;
  }

 private:
  static constexpr uint32_t kForever = ~0u;
  static constexpr size_t kMostNodes = 64;

  // What has to be read; nothing where that would have to live longer for it.
  std::optional<double> bytes_to_have_again(Value value, uint32_t until) const {
    double total = 0;
    std::vector<Value> open(graph_.node(value).inputs), seen;
    while (!open.empty()) {
      const Value top = open.back();
      open.pop_back();
      if (std::find(seen.begin(), seen.end(), top) != seen.end()) continue;
      seen.push_back(top);
      if (seen.size() > kMostNodes) return std::nullopt;
      const Node& node = graph_.node(top);
      if (node.op == Op::constant || node.op == Op::iota) continue;
      const bool passes = is_view(node.op) || node.op == Op::concat || is_pointwise(node.op);
      if (passes && (!is_kept(top) || storage(top) != top)) {
        open.insert(open.end(), node.inputs.begin(), node.inputs.end());
        continue;
      }
      // One element per row, such as the root of a norm, may stay longer.
      const bool is_small = 16 * bytes(top) <= bytes(value);
      if (!is_small && (!is_kept(top) || last_stage(top) < until)) return std::nullopt;
      total += bytes(top);
    }
    return total;
  }

  const Graph& graph_;
  const Plan& plan_;
  std::vector<uint32_t> stage_of_;    // by node
  std::vector<uint32_t> last_stage_;  // in which a storage is read; by Graph::index
};

// The graph in which readers in later stages have the chosen values computed again.
class Rewriter {
 public:
  Rewriter(const Graph& graph, const Facts& facts, std::span<const Candidate> chosen)
      : graph_(graph), facts_(facts), is_chosen_(graph.value_count()) {
    for (const Candidate& each : chosen) is_chosen_[graph.index(each.value)] = true;
  }

  Graph run() {
    return rewrite(graph_, [&](const Site& site) -> std::vector<Value> {
      if (is_view(site.node.op)) return {};  // its readers look through it
      known_[0] = known_[1] = {};
      std::vector<Value> inputs;
      for (Value input : site.node.inputs) inputs.push_back(replaced(site, input, false));
      if (std::equal(inputs.begin(), inputs.end(), site.inputs.begin())) return {};
      return results_of(site, std::move(inputs));
    });
  }

 private:
  // What a reader at the site gets for a value; `inside` an expression that is computed again.
  Value replaced(const Site& site, Value value, bool inside) {
    if (const auto found = known_[inside].find(graph_.index(value)); found != known_[inside].end())
      return found->second;
    return known_[inside][graph_.index(value)] = replacement(site, value, inside);
  }
  Value replacement(const Site& site, Value value, bool inside) {
    const Node& node = graph_.node(value);
    const Value now = site.became[graph_.index(value)];
    const bool is_earlier = facts_.stage_of(value.node) < facts_.stage_of(site.number);
    const bool is_computed =
        is_earlier && (is_chosen_[graph_.index(value)] ||
                       (inside && is_pointwise(node.op) && !facts_.is_kept(value)));
    if (!is_view(node.op) && !is_computed) return now;
    if (node.op == Op::input || node.op == Op::constant) return now;
    std::vector<Value> inputs;
    bool changed = false;
    for (Value input : node.inputs) {
      inputs.push_back(replaced(site, input, inside || is_computed));
      changed = changed || inputs.back() != site.became[graph_.index(input)];
    }
    if (is_view(node.op) && !changed) return now;
    Attributes attributes = node.attributes;
    if (is_pointwise(node.op)) attributes.detail = Again{};
    site.target.enter_scope(graph_.scope_path(node));
    const Value again = site.target.add(node.op, std::move(inputs), std::move(attributes));
    site.target.enter_scope(graph_.scope_path(site.node));
    return again;
  }

  const Graph& graph_;
  const Facts& facts_;
  std::vector<bool> is_chosen_;  // by Graph::index
  // Of the site, by `inside` and Graph::index. Other sites compute again by themselves, so that
  // each copy can be fused into its one reader.
  std::unordered_map<uint32_t, Value> known_[2];
};

}  // namespace

FittedPlan plan_within(const Graph& graph, const PlanOptions& options, Bytes budget) {
  FittedPlan result{.graph = {}, .plan = make_plan(graph, options)};
  if (result.plan.peak() <= budget) return result;
  const Facts facts(graph, result.plan);
  const std::vector<Candidate> candidates = facts.candidates();
  const auto with = [&](size_t count) {
    FittedPlan fitted{.graph = Rewriter(graph, facts, {candidates.data(), count}).run(),
                      .plan = {},
                      .recomputed = count};
    fitted.plan = make_plan(*fitted.graph, options);
    return fitted;
  };
  size_t too_few = 0, most = candidates.size();
  if (most == 0) return result;
  FittedPlan best = with(most);
  if (best.plan.peak() >= result.plan.peak()) return result;
  while (best.plan.peak() <= budget && most - too_few > 1) {  // fewer may do
    const size_t middle = too_few + (most - too_few) / 2;
    FittedPlan fewer = with(middle);
    if (fewer.plan.peak() > budget) {
      too_few = middle;
    } else {
      most = middle;
      best = std::move(fewer);
    }
  }
  return best;
}

}  // namespace ridgeline
