// Report section: the longest sequence that fits, by implementation and batch.
#include "studies/frontier/tables.h"

#include <fmt/format.h>

#include <map>

#include "base/units.h"
#include "report/page/axis.h"

namespace ridgeline {
namespace {

// A top-level number of the metrics, such as {"seq_len": 4096}.
std::optional<double> metric_at(const Record& record, const char* name) {
  const auto value = record.metrics ? positive_at(*record.metrics, name) : std::nullopt;
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

// "256 MiB"; empty if the row has none.
std::string budget_text(const Record& record) {
  const auto budget = positive_at(record.settings, "memory_budget_bytes");
  return budget ? to_string(Bytes{*budget}) : std::string();
}

// The setting that the rows of one chart share.
std::string frontier_view(const Record& record) {
  const std::string budget = budget_text(record);
  return fmt::format("d {}, heads {}, {}{} on {}{}", text_at(record.workload, "d_model"),
                     text_at(record.workload, "heads"), text_at(record.workload, "dtype"),
                     text_at(record.workload, "causal") == "True" ? ", causal" : "",
                     shown(record.device, 20),
                     budget.empty() ? "" : " within a budget of " + budget);
}

// " within a budget of 256 MiB, of the 31.0 GiB of the machine".
std::string budget_words(const Record& record) {
  const std::string budget = budget_text(record);
  const Bytes memory = record.machine.memory_total;
  if (budget.empty()) return {};
  return fmt::format(" within a budget of {}{}", budget,
                     record.device == "cpu" && memory.count > 0
                         ? fmt::format(", of the {} of the machine", to_string(memory))
                         : "");
}

// "naive up to S 4096, flash up to S 65536 within a budget of 256 MiB (d 64, heads 1, fp32 on cpu,
// batch 8)", for the rows of one view with its first row's batch.
std::string longest_words(const ReportContext& context, const std::string& view) {
  std::string batch, text, budget;
  size_t told = 0;
  for (const Record* record : context.rows) {
    const auto fits = metric_at(*record, "seq_len");
    if (record->study != "frontier" || !fits || told == kMostImplementations ||
        frontier_view(*record) != view)
      continue;
    const std::string of = text_at(record->workload, "batch_size");
    if (batch.empty()) {
      batch = of;
      budget = budget_words(*record);
    }
    if (of != batch) continue;
    text +=
        fmt::format("{}{} {} S {:.0f}", text.empty() ? "" : ", ", shown(record->implementation, 40),
                    is_at_its_end(*record) ? "up to" : "at least to", *fits);
    ++told;
  }
  const std::string where = view.substr(0, view.find(" within a budget"));
  return fmt::format("{}{} ({}, batch {}).", text, budget, where, batch);
}

}  // namespace

ReportSection frontier_section(const ReportContext& context) {
  ReportSection section{.id = "frontier",
                        .title = "How long a sequence fits",
                        .question = "How long a sequence fits?"};
  std::map<std::string, Chart> charts;
  std::map<std::string, std::vector<double>> lengths;
  for (const Record* record : context.rows) {
    const auto fits = metric_at(*record, "seq_len");
    if (record->study != "frontier" || !fits) continue;
    const std::string view = frontier_view(*record);
    Chart& chart = charts[view];
    if (chart.series.empty())
      chart = {.kind = Chart::Kind::dots,
               .id = "frontier",
               .title = fmt::format(
                   "The longest sequence that fits{}",
                   budget_text(*record).empty() ? "" : " a budget of " + budget_text(*record)),
               .description =
                   "The longest sequence that ran and the shortest that did not fit, as "
                   "probed, by implementation and batch; the axis is logarithmic.",
               .series = {
                   {.name = "fits up to", .colour = -1},
                   {.name = "does not fit at", .mark = ChartSeries::Mark::crosses, .colour = -1}}};
    constexpr size_t kMostBars = 40;
    if (chart.categories.size() == kMostBars) continue;
    const auto category = static_cast<double>(chart.categories.size());
    chart.categories.push_back(fmt::format("{}, batch {}", shown(record->implementation, 40),
                                           text_at(record->workload, "batch_size")));
    const auto add = [&](ChartSeries& series, double length) {
      series.points.push_back({category, length, fmt::format("S {:.0f}", length)});
      lengths[view].push_back(length);
    };
    add(chart.series[0], *fits);
    if (const auto fails = metric_at(*record, "first_oom_seq_len")) add(chart.series[1], *fails);
  }
  for (auto& [view, chart] : charts) {
    if (section.views.size() == kMostViews) break;
    chart.y = log_axis("sequence length", Quantity::length, lengths[view], Better::higher);
    section.views.push_back({.name = view, .charts = {std::move(chart)}});
  }
  if (!section.views.empty()) {
    section.answer = longest_words(context, section.views.front().name);
    if (section.views.size() == 1) section.views.front().name.clear();  // the answer names it
    section.certainty = {.level = Certainty::Level::measured,
                         .why = "Probed: each length was tried."};
  }
  if (!section.empty())
    for (const std::string& note : frontier_notes(context.rows))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline
