// Whole transformers: step times, speedups and memory by model.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "report/model_report.h"
#include "report/report_axis.h"
#include "report/report_sections.h"

namespace ridgeline {
namespace {

struct Scenario {
  const char* series;
  const char* words;
};
constexpr std::array kScenarios = {Scenario{"forward", "forward"},
                                   Scenario{"fwd_bwd", "forward and backward"},
                                   Scenario{"full_step", "full training step"}};

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

// Bars of one value per model and implementation.
template <class Value>
Chart bars_chart(const ReportContext& context, const ModelGroup& group, Chart chart,
                 Quantity quantity, const char* label, Value value) {
  chart.kind = Chart::Kind::bars;
  for (const ModelCase& model : group.cases) chart.categories.push_back(model.name);
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
    chart.y = log_axis(std::string(label) + " (logarithmic)", quantity, values);
    chart.y.min = least / 2;
  } else {
    chart.y = linear_axis(label, quantity, values);
  }
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
    for (const Scenario& scenario : kScenarios)
      add(bars_chart(context, group,
                     {.id = fmt::format("model-time-{}", scenario.series),
                      .title = fmt::format("Time: {}", scenario.words),
                      .description = fmt::format("Median time of one step ({}) by model and "
                                                 "implementation.",
                                                 scenario.words)},
                     Quantity::milliseconds, "median time", [&](const ModelCase&, const Record& r) {
                       return median_of(r, scenario.series);
                     }));
    for (const Scenario& scenario : kScenarios)
      add(bars_chart(context, group,
                     {.id = fmt::format("model-speedup-{}", scenario.series),
                      .title = fmt::format("Speedup over {}: {}", base, scenario.words),
                      .description = fmt::format(
                          "How many times as fast as {} each implementation runs the {}, "
                          "by model.",
                          base, scenario.words),
                      .reference = 1.0},
                     Quantity::ratio, "times as fast",
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
                   Quantity::bytes, "peak memory of tensors",
                   [](const ModelCase&, const Record& r) -> std::optional<double> {
                     if (!r.memory.peak || r.status != Status::ok) return std::nullopt;
                     return static_cast<double>(r.memory.peak->count);
                   }));
    if (!view.charts.empty()) section.views.push_back(std::move(view));
  }
  for (const std::string& note : model_notes(context.input.records))
    section.sentences.push_back(shown(note, 500));
  return section;
}

}  // namespace ridgeline
