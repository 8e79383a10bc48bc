// A plan as text, for people: each kernel and why it is one, memory, and what was refused.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "plan/plan.h"

namespace ridgeline {
namespace {

constexpr size_t kShownNodes = 12;

std::string scaled(double value, const char* unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  while (value >= 1000 && prefix + 1 < std::size(kPrefixes)) {
    value /= 1000;
    ++prefix;
  }
  return fmt::format("{:.3g} {}{}", value, kPrefixes[prefix], unit);
}

std::string why(const Graph& graph, const Group& group) {
  if (group.kind == GroupKind::library) {
    const std::string_view op = info(graph.nodes()[group.node].op).name;
    return fmt::format("a kernel of its own: {}", op);
  }
  const FusedKernel& kernel = group.kernel;
  if (kernel.kind == FusedKind::column)
    return fmt::format("folds {} rows of {} columns, in {} parts", kernel.rows(), kernel.columns(),
                       column_parts(kernel));
  if (kernel.has_folds())
    return fmt::format("{} rows of {} columns, each read once", kernel.rows(), kernel.columns());
  return fmt::format("pointwise over {} elements", kernel.rows() * kernel.columns());
}

// The nodes that a fused kernel computes, those of the graph's own names first in mind.
std::string nodes_of(const Graph& graph, const Group& group) {
  std::vector<std::string> names;
  if (group.kind == GroupKind::library) {
    names.push_back(graph.name({group.node, 0}));
  } else {
    for (const FusedStep& step : group.kernel.steps)
      if (step.kind == FusedStep::Kind::compute || step.kind == FusedStep::Kind::fold)
        names.push_back(graph.name(step.value));
  }
  const size_t total = names.size();
  if (total > kShownNodes) names.resize(kShownNodes);
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (total > kShownNodes) text += fmt::format(" and {} more", total - kShownNodes);
  return text.empty() ? "a copy" : text;
}

std::string names_of(const Graph& graph, const std::vector<Value>& values) {
  std::vector<std::string> names;
  for (Value value : values) names.push_back(graph.name(value));
  const size_t total = names.size();
  if (total > kShownNodes) names.resize(kShownNodes);
  return fmt::format("{}{}", fmt::join(names, ", "),
                     total > kShownNodes ? fmt::format(" and {} more", total - kShownNodes) : "");
}

}  // namespace

std::string explain(const Graph& graph, const Plan& plan) {
  const Cost total = plan.total();
  std::string text = fmt::format(
      "{} kernels instead of {}; {} moved, {}\n", plan.kernels.size(), plan.eager_launches,
      to_string(Bytes{static_cast<int64_t>(total.bytes)}), scaled(total.flops, "FLOP"));
  text += fmt::format("memory: inputs {} + arena {} (at least {}) + scratch of calls {} = {}\n",
                      to_string(plan.inputs), to_string(plan.arena), to_string(plan.least_arena),
                      to_string(plan.library_scratch), to_string(plan.peak()));
  size_t stage = plan.stages.size();
  for (size_t number = 0; number < plan.kernels.size(); ++number) {
    const PlannedKernel& kernel = plan.kernels[number];
    const Group& group = kernel.group;
    if (group.stage != stage) {
      stage = group.stage;
      text += fmt::format("stage {}\n", plan.stages[stage].name);
    }
    const std::string name = group.kind == GroupKind::library
                                 ? std::string(info(graph.nodes()[group.node].op).name)
                                 : group.kernel.name;
    text += fmt::format("  {:3} {}: {}; {}, {}\n", number, name, why(graph, group),
                        to_string(Bytes{static_cast<int64_t>(kernel.cost.bytes)}),
                        scaled(kernel.cost.flops, "FLOP"));
    text += fmt::format("      computes {}\n", nodes_of(graph, group));
    text += fmt::format("      reads {}; writes {}\n", names_of(graph, group.reads),
                        names_of(graph, group.writes));
  }
  std::map<std::pair<uint32_t, FusionRefusal>, std::vector<Value>> refused;
  for (const RefusalNote& note : plan.refusals)
    refused[{note.group, note.why}].push_back(note.value);
  if (!refused.empty()) text += "not fused\n";
  for (const auto& [where, values] : refused) {
    const auto& [group, reason] = where;
    const std::string place =
        group == RefusalNote::kNoGroup ? "any kernel" : fmt::format("kernel {}", group);
    text += fmt::format("  {} with {}: {}\n", names_of(graph, values), place, text_of(reason));
  }
  return text;
}

}  // namespace ridgeline
