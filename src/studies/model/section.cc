// Whole transformers: step times, speedups and memory by model.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "report/page/axis.h"
#include "studies/model/tables.h"

namespace ridgeline {
namespace {

struct NamedScenario {
  const char* series;
  const char* words;
};
constexpr std::array kNamedScenarios = {NamedScenario{"forward", "forward"},
                                        NamedScenario{"fwd_bwd", "forward and backward"},
                                        NamedScenario{"full_step", "full training step"}};

// One model at one context length: its rows by implementation.
struct ModelCase {
  std::string name;  // "small, context 512"
  std::map<std::string, const Record*> rows = {};
};

struct ModelGroup {
  std::string name;  // "fp32, batch 4, NVIDIA H200"
  std::vector<ModelCase> cases = {};
  std::vector<std::string> implementations = {};
};

std::vector<ModelGroup> model_groups(const ReportContext& context) {
  std::vector<ModelGroup> groups;
  for (const Record* record : context.rows) {
    if (record->study != "model" || !record->workload.is_object()) continue;
    const Json& workload = record->workload;
    const std::string device = record->machine.gpu ? shown(record->machine.gpu->model, 40) : "CPU";
    const std::string group_name = fmt::format("{}, batch {}, {}", text_at(workload, "precision"),
                                               text_at(workload, "batch_size"), device);
    const std::string case_name = fmt::format("{}, context {}", text_at(workload, "model_size"),
                                              text_at(workload, "context_length"));
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const ModelGroup& g) { return g.name == group_name; });
    if (group == groups.end()) group = groups.insert(group, {.name = group_name});
    auto model = std::find_if(group->cases.begin(), group->cases.end(),
                              [&](const ModelCase& c) { return c.name == case_name; });
    if (model == group->cases.end()) model = group->cases.insert(model, {.name = case_name});
    const std::string implementation = shown(record->implementation, 40);
    model->rows[implementation] = record;
    auto& names = group->implementations;
    if (std::find(names.begin(), names.end(), implementation) == names.end())
      names.push_back(implementation);
  }
  return groups;
}

// Bars of one value per model and implementation, made from the series of that name; empty: from
// another part of the records.
template <class Value>
Chart bars_chart(const ReportContext& context, const ModelGroup& group, Chart chart,
                 Quantity quantity, const char* label, const char* series_name, Value value) {
  chart.kind = Chart::Kind::bars;
  for (const ModelCase& model : group.cases) {
    std::string& category = chart.categories.emplace_back(model.name);
    for (const auto& [name, record] : model.rows)
      category += failure_note(name, record, series_name);
  }
  std::vector<double> values;
  for (const std::string& name : group.implementations) {
    ChartSeries series{.name = name};
    for (size_t i = 0; i < group.cases.size(); ++i) {
      const auto row = group.cases[i].rows.find(name);
      if (row == group.cases[i].rows.end()) continue;
      const std::optional<double> number = value(group.cases[i], *row->second);
      if (!number || *number <= 0) continue;
      series.colour = context.colour(row->second->implementation);
      series.points.push_back({static_cast<double>(i), *number, quantity_text(quantity, *number)});
      values.push_back(*number);
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  if (values.empty()) return chart;
  if (chart.reference) values.push_back(*chart.reference);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  constexpr double kWide = 30;  // beyond that, short bars vanish on a linear axis
  if (!chart.reference && *high > kWide * *low) {
    const double least = *low;
    chart.y = log_axis(fmt::format("{} (logarithmic)", label), quantity, values);
    chart.y.min = least / 2;
  } else {
    chart.y = linear_axis(label, quantity, values);
  }
  return chart;
}

// What a row holds in the worst moment of its largest scenario; null: it does not say.
const Json* at_peak_of(const Record& record) {
  if (!record.metrics || !record.metrics->is_object()) return nullptr;
  for (size_t i = kNamedScenarios.size(); i-- > 0;) {
    const auto of = record.metrics->find(kNamedScenarios[i].series);
    if (of == record.metrics->end() || !of->is_object()) continue;
    const auto at_peak = of->find("at_peak");
    if (at_peak != of->end() && at_peak->is_object()) return &*at_peak;
  }
  return nullptr;
}

// "optimizer_state_bytes" -> "optimizer state".
std::string kind_words(std::string name) {
  constexpr std::string_view kUnit = "_bytes";
  if (name.ends_with(kUnit)) name.resize(name.size() - kUnit.size());
  std::replace(name.begin(), name.end(), '_', ' ');
  return shown(name, 40);
}

Chart memory_by_kind_chart(const ModelGroup& group) {
  constexpr size_t kMostKinds = 12;
  Chart chart{.kind = Chart::Kind::stacked_bars,
              .id = "model-memory-by-kind",
              .title = "Where the memory goes",
              .description =
                  "What lives in the worst moment of the largest scenario, as predicted, "
                  "by model and implementation."};
  std::vector<double> totals;
  for (const ModelCase& model : group.cases)
    for (const std::string& name : group.implementations) {
      const auto row = model.rows.find(name);
      const Json* at_peak = row == model.rows.end() ? nullptr : at_peak_of(*row->second);
      if (at_peak == nullptr) continue;
      const auto category = static_cast<double>(chart.categories.size());
      double total = 0;
      for (const auto& [key, value] : at_peak->items()) {
        const double bytes = value.is_number_integer() ? value.get<double>() : 0;
        if (!(bytes > 0)) continue;
        const std::string words = kind_words(key);
        auto series = std::find_if(chart.series.begin(), chart.series.end(),
                                   [&](const ChartSeries& s) { return s.name == words; });
        if (series == chart.series.end()) {
          if (chart.series.size() == kMostKinds) continue;  // records come from files
          series = chart.series.insert(
              series, {.name = words, .colour = static_cast<int>(chart.series.size())});
        }
        series->points.push_back({category, bytes, quantity_text(Quantity::bytes, bytes)});
        total += bytes;
      }
      const bool does_not_fit = row->second->status == Status::oom;
      chart.categories.push_back(
          fmt::format("{}, {}{}", model.name, name, does_not_fit ? " (does not fit)" : ""));
      totals.push_back(total);
    }
  if (!totals.empty()) chart.y = linear_axis("bytes in the worst moment", Quantity::bytes, totals);
  return chart;
}

}  // namespace

ReportSection model_section(const ReportContext& context) {
  ReportSection section{.id = "model", .title = "Whole transformers"};
  for (const ModelGroup& group : model_groups(context)) {
    if (section.views.size() == kMostViews) break;
    ReportView view{.name = group.name};
    const std::string base = baseline_of(group.implementations);
    const auto add = [&](Chart chart) {
      if (!chart.series.empty()) view.charts.push_back(std::move(chart));
    };
    for (const NamedScenario& scenario : kNamedScenarios)
      add(bars_chart(
          context, group,
          {.id = fmt::format("model-time-{}", scenario.series),
           .title = fmt::format("Time: {}", scenario.words),
           .description = fmt::format("Median time of one step ({}) by model and "
                                      "implementation.",
                                      scenario.words)},
          Quantity::milliseconds, "median time", scenario.series,
          [&](const ModelCase&, const Record& r) { return median_of(r, scenario.series); }));
    for (const NamedScenario& scenario : kNamedScenarios)
      add(bars_chart(context, group,
                     {.id = fmt::format("model-speedup-{}", scenario.series),
                      .title = fmt::format("Speedup over {}: {}", base, scenario.words),
                      .description = fmt::format(
                          "How many times as fast as {} each implementation runs the {}, "
                          "by model.",
                          base, scenario.words),
                      .reference = 1.0},
                     Quantity::ratio, "times as fast", scenario.series,
                     [&](const ModelCase& model, const Record& record) -> std::optional<double> {
                       const auto before = model.rows.find(base);
                       if (before == model.rows.end() || before->second == &record)
                         return std::nullopt;
                       const auto before_ms = median_of(*before->second, scenario.series);
                       const auto after_ms = median_of(record, scenario.series);
                       if (!before_ms || !after_ms || *after_ms <= 0) return std::nullopt;
                       return *before_ms / *after_ms;
                     }));
    add(bars_chart(context, group,
                   {.id = "model-memory",
                    .title = "Peak memory",
                    .description = "Peak memory of tensors over all measured steps, by model and "
                                   "implementation."},
                   Quantity::bytes, "peak memory of tensors", "",
                   [](const ModelCase&, const Record& r) -> std::optional<double> {
                     if (!r.memory.peak || r.status != Status::ok) return std::nullopt;
                     return static_cast<double>(r.memory.peak->count);
                   }));
    add(memory_by_kind_chart(group));
    if (!view.charts.empty()) section.views.push_back(std::move(view));
  }
  for (const std::string& note : model_notes(context.input.records))
    section.sentences.push_back(shown(note, 500));
  return section;
}

}  // namespace ridgeline
