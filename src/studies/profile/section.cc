// Where the time goes: categories of work by phase and mode, and the kernels that take most.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/page/axis.h"
#include "studies/profile/fold_rows.h"
#include "studies/profile/tables.h"

namespace ridgeline {
namespace {

// Stacked bars: one per mode and phase, one colour per category of work.
Chart category_chart(const std::vector<const Record*>& rows) {
  constexpr size_t kMostBars = 24, kMostCategories = 12;
  Chart chart{.kind = Chart::Kind::stacked_bars,
              .id = "profile-categories",
              .title = "Time of a step by phase and kind of work",
              .description =
                  "Summed time of kernels in a step, one bar per implementation and "
                  "phase, one colour per category of work."};
  std::vector<double> totals;
  for (const Record* record : rows)
    for (const FoldRow& phase : fold_rows(*record, "phase")) {
      if (chart.categories.size() == kMostBars) break;
      const auto at = static_cast<double>(chart.categories.size());
      double total = 0;
      for (const FoldRow& row : fold_rows(*record, "phase_category", phase.key)) {
        const double ms = row.total_ms.value_or(0);
        if (!(ms > 0)) continue;
        const std::string name = shown(row.key, 40);
        auto series = std::ranges::find(chart.series, name, &ChartSeries::name);
        if (series == chart.series.end()) {
          if (chart.series.size() == kMostCategories) continue;  // records come from files
          series = chart.series.insert(series, {.name = name,
                                                .colour = static_cast<int>(chart.series.size()),
                                                .palette = ChartSeries::Palette::tensors});
        }
        series->points.push_back({at, ms, quantity_text(Quantity::milliseconds, ms)});
        total += ms;
      }
      if (!(total > 0)) continue;
      chart.categories.push_back(
          fmt::format("{}, {}", shown(record->implementation, 40), shown(phase.key, 40)));
      totals.push_back(total);
    }
  if (!totals.empty())
    chart.y = linear_axis("time of a step", Quantity::milliseconds, totals, Better::lower);
  return chart;
}

// The kind of work and the kernel that take most of a step.
std::string most_words(const Record& record) {
  const std::vector<FoldRow> kinds = fold_rows(record, "category"),
                             kernels = fold_rows(record, "kernel");
  if (kinds.empty() || kernels.empty() || !kinds.front().share || !kernels.front().share) return {};
  return shown(
      fmt::format("In {}, {:.0f} % of the time is {}; the kernel {} alone takes {:.0f} %, in "
                  "{}.",
                  profile_name(record), 100 * *kinds.front().share, kinds.front().key,
                  kernels.front().key, 100 * *kernels.front().share, kernels.front().phase),
      400);
}

}  // namespace

ReportSection profile_section(const ReportContext& context) {
  constexpr size_t kMostTables = 8, kTopKernels = 10, kMostAnswers = 40;
  ReportSection section{.id = "profile",
                        .title = "Where the time goes",
                        .question = "Which kernels take the time of a step?"};
  std::map<std::string, std::vector<const Record*>> views;
  std::vector<Record> rows;
  for (const Record* record : context.rows)
    if (record->study == "profile" && record->workload.is_object()) {
      rows.push_back(*record);
      views[fmt::format("{}, {}", profile_workload_name(*record),
                        record->machine.gpu ? record->machine.gpu->model : "CPU")]
          .push_back(record);
    }
  if (rows.empty()) return section;
  for (const Record& record : rows)
    if (const std::string most = most_words(record); section.answer.empty() && !most.empty())
      section.answer = most;
  section.certainty = {.level = Certainty::Level::measured,
                       .why = "Means over traced steps; shares are of the summed time of kernels."};
  for (const Record& record : rows)
    for (const std::string& answer : profile_answers(record))
      if (section.sentences.size() < kMostAnswers)
        section.sentences.push_back(shown(profile_name(record) + ": " + answer, 400));
  for (const std::string& note : profile_notes(rows)) section.sentences.push_back(shown(note, 400));
  for (const auto& [name, of] : views) {
    if (section.views.size() == kMostViews) break;
    if (Chart chart = category_chart(of); !chart.series.empty())
      section.views.push_back({.name = shown(name, 120), .charts = {std::move(chart)}});
  }
  Table modes = profile_modes(rows);
  modes.title = "Modes side by side, of one step";
  section.tables.push_back(as_report_table(modes));
  for (const Record& record : rows) {
    if (section.tables.size() > kMostTables) break;
    Table kernels = profile_folds(record, "kernel", kTopKernels);
    if (kernels.rows.empty()) continue;
    kernels.title = "Kernels of " + profile_name(record);
    section.tables.push_back(as_report_table(kernels));
  }
  return section;
}

}  // namespace ridgeline
