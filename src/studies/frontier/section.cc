#include "studies/frontier/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/page/axis.h"

namespace ridgeline {
namespace {

// A number at the top of the metrics, such as {"seq_len": 4096}.
std::optional<double> metric_at(const Record& record, const char* name) {
  if (!record.metrics || !record.metrics->is_object()) return std::nullopt;
  const auto value = positive_at(*record.metrics, name);
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

// "naive up to S 4096, flash up to S 65536 at batch 8", of the batch that the first row has.
std::string longest_words(const ReportContext& context) {
  std::string batch, text;
  size_t told = 0;
  for (const Record* record : context.rows) {
    const auto fits = metric_at(*record, "seq_len");
    if (record->study != "frontier" || !fits || told == kMostImplementations) continue;
    const std::string of = text_at(record->workload, "batch_size");
    if (batch.empty()) batch = of;
    if (of != batch) continue;
    text += fmt::format("{}{} up to S {:.0f}", text.empty() ? "" : ", ",
                        shown(record->implementation, 40), *fits);
    ++told;
  }
  return fmt::format("At batch {}: {}.", batch, text);
}

}  // namespace

ReportSection frontier_section(const ReportContext& context) {
  ReportSection section{.id = "frontier",
                        .title = "How long a sequence fits",
                        .question = "How long a sequence fits into the memory?"};
  std::map<std::string, Chart> charts;
  std::map<std::string, std::vector<double>> lengths;
  for (const Record* record : context.rows) {
    const auto fits = metric_at(*record, "seq_len");
    if (record->study != "frontier" || !fits) continue;
    const std::string view =
        fmt::format("d {}, heads {}, {}{}", text_at(record->workload, "d_model"),
                    text_at(record->workload, "heads"), text_at(record->workload, "dtype"),
                    text_at(record->workload, "causal") == "True" ? ", causal" : "");
    Chart& chart = charts[view];
    if (chart.series.empty())
      chart = {.kind = Chart::Kind::dots,
               .id = "frontier",
               .title = "The longest sequence that fits",
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
    section.answer = longest_words(context);
    section.certainty = {.level = Certainty::Level::measured,
                         .why = "Probed: the longest that ran, and the shortest that did not fit."};
  }
  if (!section.empty())
    for (const std::string& note : frontier_notes(context.input.records))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline
