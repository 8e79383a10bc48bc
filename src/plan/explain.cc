// A plan as text, for people: each kernel and why it is one, memory, and what was refused.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/sort_by.h"
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

std::string listed(std::vector<std::string> names) {
  const size_t total = names.size();
  if (total > kShownNodes) names.resize(kShownNodes);
  return fmt::format("{}{}", fmt::join(names, ", "),
                     total > kShownNodes ? fmt::format(" and {} more", total - kShownNodes) : "");
}

std::string why(const Graph& graph, const Group& group) {
  if (group.kind == GroupKind::library) {
    const std::string_view op = info(graph.nodes()[group.node].op).name;
    const std::string more = group.epilogue ? " with epilogue: " + to_string(*group.epilogue)
                             : group.into   ? " that writes fp32"
                             : group.products.empty() ? ""
                                                      : " that computes gradients itself";
    return fmt::format("a kernel of its own: {}{}", op, more);
  }
  const FusedKernel& kernel = group.kernel;
  if (kernel.kind == FusedKind::column)
    return fmt::format("folds {} rows of {} columns, in {} parts", kernel.rows(), kernel.columns(),
                       column_parts(kernel));
  if (kernel.has_folds())
    return fmt::format("{} rows of {} columns, each read once", kernel.rows(), kernel.columns());
  const std::string pointwise =
      fmt::format("pointwise over {} elements", kernel.rows() * kernel.columns());
  if (!kernel.product) return pointwise;
  return fmt::format("a product [{}, {}] x [{}, {}] and {} of its sums", kernel.product->rows,
                     kernel.product->depth, kernel.product->depth, kernel.product->columns,
                     pointwise);
}

// The nodes that a fused kernel computes, those of the graph's own names first in mind.
std::string nodes_of(const Graph& graph, const Group& group) {
  std::vector<std::string> names;
  if (group.kind == GroupKind::library) {
    names.push_back(graph.name({group.node, 0}));
    for (uint32_t product : group.products)
      if (product != Group::kNoProduct) names.push_back(graph.name({product, 0}));
  } else {
    for (const FusedStep& step : group.kernel.steps)
      if (step.kind == FusedStep::Kind::compute || step.kind == FusedStep::Kind::fold)
        names.push_back(graph.name(step.value));
  }
  return names.empty() ? "a copy" : listed(std::move(names));
}

std::string names_of(const Graph& graph, const std::vector<Value>& values) {
  std::vector<std::string> names;
  for (Value value : values) names.push_back(graph.name(value));
  return listed(std::move(names));
}

std::string name_of(const Graph& graph, const Group& group) {
  return group.kind == GroupKind::library ? std::string(info(graph.nodes()[group.node].op).name)
                                          : group.kernel.name;
}

// Where the time goes: kernels of one name and one size together, the longest first.
std::string time_by_kind(const Graph& graph, const Plan& plan, std::span<const double> kernel_ms) {
  struct Kind {
    int count = 0;
    double ms = 0;
    Cost cost;
  };
  std::map<std::string, Kind> kinds;
  double total = 0;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const Group& group = plan.kernels[i].group;
    std::string name = name_of(graph, group);
    if (group.kind == GroupKind::library) {
      const Node& node = graph.nodes()[group.node];
      for (size_t input = 0; input < std::min<size_t>(node.inputs.size(), 2); ++input)
        name += " " + to_string(graph.type(node.inputs[input]).shape);
    }
    Kind& kind = kinds[name];
    ++kind.count;
    kind.ms += kernel_ms[i];
    kind.cost += plan.kernels[i].cost;
    total += kernel_ms[i];
  }
  std::vector<std::pair<std::string, Kind>> sorted(kinds.begin(), kinds.end());
  sort_by_falling(sorted, [](const auto& each) { return each.second.ms; });
  std::string text =
      fmt::format("time of all kernels, each repeated by itself: {:.3f} ms\n", total);
  for (const auto& [name, kind] : sorted)
    text += fmt::format(
        "  {:5.1f} %  {:8.3f} ms  {:3} x {:8.2f} us  {:7.1f} TFLOP/s {:6.2f} TB/s  {}\n",
        100 * kind.ms / total, kind.ms, kind.count, 1e3 * kind.ms / kind.count,
        kind.cost.flops / kind.ms * 1e-9, kind.cost.bytes / kind.ms * 1e-9, name);
  return text;
}

std::string decision_text(const EpilogueNote& note) {
  if (!note.offer) return fmt::format("none possible: {}", text_of(note.refusal));
  const EpilogueOffer& offer = *note.offer;
  const bool has_rest = std::any_of(offer.rests.begin(), offer.rests.end(),
                                    [](const Group& rest) { return !rest.kernel.results.empty(); });
  const EpilogueDecision& decision = note.decision;
  std::string why = "no device whose products have epilogues was asked";
  const auto time = [](double ms) {
    return std::isfinite(ms) ? fmt::format("{:.2f} us", 1e3 * ms) : "does not run";
  };
  if (decision.split_ms && decision.fused_ms)
    why = fmt::format("timed: {} with it, {} in kernels of their own", time(*decision.fused_ms),
                      time(*decision.split_ms));
  else if (note.was_asked)
    why = fmt::format("not timed (--tune would); {} would move with it, {} move without",
                      to_string(Bytes{static_cast<int64_t>(offer.fused_bytes)}),
                      to_string(Bytes{static_cast<int64_t>(offer.split_bytes)}));
  const std::string what = offer.fused.epilogue
                               ? to_string(*offer.fused.epilogue)
                               : "a kernel that multiplies: " + offer.fused.kernel.name;
  return fmt::format("{} [{}{}]: {}", decision.takes ? "taken" : "not taken", what,
                     has_rest ? "; the rest stays a kernel" : "", why);
}

// Products of one fate together.
std::string epilogues_text(const Graph& graph, const Plan& plan) {
  std::map<std::string, std::vector<Value>> products;
  for (const EpilogueNote& note : plan.epilogues)
    products[decision_text(note)].push_back(note.product);
  std::string text = products.empty() ? "" : "epilogues of products\n";
  for (const auto& [decision, values] : products)
    text += fmt::format("  {}\n      {}\n", decision, names_of(graph, values));
  return text;
}

}  // namespace

std::string explain(const Graph& graph, const Plan& plan, std::span<const double> kernel_ms) {
  const Cost total = plan.total();
  std::string text = fmt::format(
      "{} kernels instead of {}; {} moved, {}\n", plan.kernels.size(), plan.eager_launches,
      to_string(Bytes{static_cast<int64_t>(total.bytes)}), scaled(total.flops, "FLOP"));
  text += fmt::format("memory: inputs {} + arena {} (at least {}) = {}\n", to_string(plan.inputs),
                      to_string(plan.arena), to_string(plan.least_arena), to_string(plan.peak()));
  if (!kernel_ms.empty()) text += time_by_kind(graph, plan, kernel_ms);
  size_t stage = plan.stages.size();
  for (size_t number = 0; number < plan.kernels.size(); ++number) {
    const PlannedKernel& kernel = plan.kernels[number];
    const Group& group = kernel.group;
    if (group.stage != stage) {
      stage = group.stage;
      text += fmt::format("stage {}\n", plan.stages[stage].name);
    }
    text +=
        fmt::format("  {:3} {}: {}; {}, {}{}{}\n", number, name_of(graph, group), why(graph, group),
                    to_string(Bytes{static_cast<int64_t>(kernel.cost.bytes)}),
                    scaled(kernel.cost.flops, "FLOP"), kernel.on_side ? "; beside others" : "",
                    kernel_ms.empty() ? "" : fmt::format("; {:.2f} us", 1e3 * kernel_ms[number]));
    text += fmt::format("      computes {}\n", nodes_of(graph, group));
    text += fmt::format("      reads {}; writes {}\n", names_of(graph, group.reads),
                        names_of(graph, group.writes));
  }
  text += epilogues_text(graph, plan);
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
