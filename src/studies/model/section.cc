// The report section on whole transformers: the ladder, step times of all scenarios, and memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/winners.h"
#include "studies/model/ladder_section.h"
#include "studies/model/tables.h"
#include "studies/places.h"

namespace ridgeline {
namespace {

struct NamedScenario {
  const char* series;
  const char* words;
};
constexpr std::array kNamedScenarios = {NamedScenario{"forward", "forward"},
                                        NamedScenario{"fwd_bwd", "forward and backward"},
                                        NamedScenario{"full_step", "full training step"}};

// One model at one context length, in one setting on one machine: its rows by implementation.
struct ModelCase {
  std::string name;  // "small, context 512", and what sets it apart from others of the group
  std::map<std::string, const Record*> rows = {};
};

struct ModelGroup {
  std::string name;  // "fp32, batch 4, NVIDIA H200"
  std::vector<ModelCase> cases = {};
  std::vector<std::string> implementations = {};
};

std::string case_name(const Record& record) {
  const std::string size = text_at(record.workload, "model_size"),
                    length = "context " + text_at(record.workload, "context_length");
  return size == "custom" ? named_model("custom " + length, record.workload) : size + ", " + length;
}

std::vector<ModelGroup> model_groups(const ReportContext& context) {
  constexpr std::string_view kDerived[] = {"num_params"};  // from the sizes
  std::map<std::string, std::vector<const Record*>> rows;
  std::vector<ModelGroup> groups;
  for (const Record* record : context.rows) {
    if (record->study != "model" || !record->workload.is_object()) continue;
    const Json& workload = record->workload;
    const std::string device = record->machine.gpu ? shown(record->machine.gpu->model, 40) : "CPU";
    const std::string group_name = fmt::format("{}, batch {}, {}", text_at(workload, "precision"),
                                               text_at(workload, "batch_size"), device);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const ModelGroup& g) { return g.name == group_name; });
    if (group == groups.end()) group = groups.insert(group, {.name = group_name});
    add_once(group->implementations, shown(record->implementation, 40));
    rows[group_name].push_back(record);
  }
  for (ModelGroup& group : groups)
    for (RowPlace& place : places_of(rows[group.name], case_name, kDerived)) {
      ModelCase& model = group.cases.emplace_back(ModelCase{.name = std::move(place.name)});
      for (const Record* record : place.rows)
        model.rows[shown(record->implementation, 40)] = record;
    }
  return groups;
}

// One category of the charts: a scenario of a model, with the failures in its name.
struct ScenarioCase {
  const ModelCase* model;
  const NamedScenario* scenario;
  std::string name;
};

std::vector<ScenarioCase> scenario_cases(const ModelGroup& group) {
  std::vector<ScenarioCase> cases;
  for (const ModelCase& model : group.cases)
    for (const NamedScenario& scenario : kNamedScenarios) {
      ScenarioCase of{&model, &scenario, fmt::format("{}: {}", model.name, scenario.words)};
      bool is_measured = false;
      for (const auto& [name, record] : model.rows) {
        is_measured = is_measured || median_of(*record, scenario.series);
        of.name += failure_note(name, record, scenario.series);
      }
      if (is_measured) cases.push_back(std::move(of));
    }
  return cases;
}

// Adds a point for each scenario and implementation.
template <class Point>
void add_scenarios(const ReportContext& context, const ModelGroup& group, Chart& chart,
                   std::vector<double>& values, Point point_of) {
  const std::vector<ScenarioCase> cases = scenario_cases(group);
  for (const ScenarioCase& of : cases) chart.categories.push_back(of.name);
  for (const std::string& name : group.implementations) {
    ChartSeries series{.name = name, .implementation = name};
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto row = cases[i].model->rows.find(name);
      if (row == cases[i].model->rows.end()) continue;
      std::optional<ChartPoint> point = point_of(static_cast<double>(i), cases[i], *row->second);
      if (!point) continue;
      series.colour = context.colour(row->second->implementation);
      values.push_back(point->y);
      if (point->has_interval()) values.push_back(point->high);
      series.points.push_back(std::move(*point));
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
}

Chart times_chart(const ReportContext& context, const ModelGroup& group) {
  Chart chart{.kind = Chart::Kind::dots,
              .id = "model-time",
              .title = "Time of a step",
              .description =
                  "Median time of every scenario by implementation, with the interval "
                  "of its samples; the axis is logarithmic."};
  std::vector<double> values;
  add_scenarios(context, group, chart, values,
                [](double at, const ScenarioCase& of, const Record& record) {
                  return timed_point(at, record, of.scenario->series);
                });
  chart.y = log_axis("median time, logarithmic", Quantity::milliseconds, values, Better::lower);
  return chart;
}

Chart speedups_chart(const ReportContext& context, const ModelGroup& group,
                     const std::string& base) {
  Chart chart{.kind = Chart::Kind::bars,
              .id = "model-speedup",
              .title = fmt::format("Speedup over {}", base),
              .description = fmt::format(
                  "How many times as fast as {} each implementation runs every scenario.", base),
              .reference = 1.0};
  std::vector<double> values = {1};
  add_scenarios(context, group, chart, values,
                [&](double at, const ScenarioCase& of, const Record& record) {
                  const auto before = of.model->rows.find(base);
                  return before == of.model->rows.end() || before->second == &record
                             ? std::nullopt
                             : speedup_point(at, *before->second, record, of.scenario->series);
                });
  chart.y = linear_axis(fmt::format("times as fast as {}", base), Quantity::ratio, values,
                        Better::higher);
  return chart;
}

// Live bytes by kind at the peak of the row's largest scenario, or null if the record has none.
const Json* at_peak_of(const Record& record) {
  if (!record.metrics || !record.metrics->is_object()) return nullptr;
  for (size_t i = kNamedScenarios.size(); i-- > 0;) {
    const Json* of = record.metrics->find_key(kNamedScenarios[i].series);
    const Json* at_peak = of ? of->find_key("at_peak") : nullptr;
    if (at_peak && at_peak->is_object()) return at_peak;
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
        const auto colour = static_cast<int>(chart.series.size());
        ChartSeries* series = tensor_series(chart, kind_words(key), colour, kMostKinds);
        if (series == nullptr) continue;
        series->points.push_back(
            {category, bytes,
             fmt::format("{} of {}", quantity_text(Quantity::bytes, bytes), name)});
        total += bytes;
      }
      const Record& record = *row->second;
      chart.categories.push_back(fmt::format("{}, {}{}", model.name, name,
                                             record.status != Status::oom ? ""
                                             : was_tried(record)          ? " (does not fit)"
                                                                          : " (would not fit)"));
      totals.push_back(total);
    }
  if (!totals.empty())
    chart.y = linear_axis("memory in the worst moment", Quantity::bytes, totals, Better::lower);
  return chart;
}

// Without launch graphs compiled equals flash, so its time is a second measurement of the same.
std::string without_graph_words(const ModelCase& model, const std::vector<const Record*>& rungs,
                                const NamedScenario& scenario) {
  const auto compiled = model.rows.find("compiled");
  if (compiled == model.rows.end() || compiled->second->device != "cpu") return {};
  const auto again = median_of(*compiled->second, scenario.series);
  if (compiled->second == rungs.back() || !again) return " A CPU has no launch graph.";
  return fmt::format(" A CPU has no launch graph: compiled is {} again, here {}.",
                     rungs.back()->implementation, quantity_text(Quantity::milliseconds, *again));
}

// Adds the ladder of the first model that has two rungs, in its largest such scenario, and the
// section's answer.
void climb(const ReportContext& context, const ModelGroup& group, ReportView& view,
           ReportSection& section) {
  for (const ModelCase& model : group.cases)
    for (size_t i = kNamedScenarios.size(); i-- > 0;) {
      const NamedScenario& scenario = kNamedScenarios[i];
      std::vector<const Record*> rows;
      for (const auto& [name, record] : model.rows) rows.push_back(record);
      const std::vector<const Record*> rungs = rungs_of(rows, scenario.series);
      std::vector<Chart> charts = ladder_charts(context, rungs, scenario.series, scenario.words);
      if (charts.empty()) continue;
      view.pictures = charts.size();
      for (Chart& chart : charts) view.charts.push_back(std::move(chart));
      if (!section.answer.empty()) return;
      const Judgement& judgement =
          context.verdicts->between(*rungs.front(), *rungs.back(), scenario.series);
      Judged judged;
      judged.add(judgement);
      for (size_t step = 1; rungs.size() > 2 && step < rungs.size(); ++step)  // also named
        judged.add(context.verdicts->between(*rungs[step - 1], *rungs[step], scenario.series));
      const bool is_unclear = judgement.verdict == Verdict::unclear;
      section.answer =
          fmt::format("Model {}: {}{}.{}", model.name, is_unclear ? "by the medians " : "",
                      ladder_words(context, rungs, scenario.series, scenario.words),
                      without_graph_words(model, rungs, scenario));
      section.certainty = certainty_of(judged);
      return;
    }
}

}  // namespace

ReportSection model_section(const ReportContext& context) {
  ReportSection section{.id = "model",
                        .title = "Whole transformers",
                        .question = "What do fusion, flash attention and a launch graph bring?"};
  for (const ModelGroup& group : model_groups(context)) {
    if (section.views.size() == kMostViews) break;
    ReportView view{.name = group.name};
    const auto add = [&](Chart chart) {
      if (!chart.series.empty()) view.charts.push_back(std::move(chart));
    };
    climb(context, group, view, section);
    add(times_chart(context, group));
    add(speedups_chart(context, group, baseline_of(group.implementations)));
    add(memory_by_kind_chart(group));
    if (!view.charts.empty()) section.views.push_back(std::move(view));
  }
  for (const std::string& note : model_notes(context.rows))
    section.sentences.push_back(shown(note, 500));
  return section;
}

}  // namespace ridgeline
