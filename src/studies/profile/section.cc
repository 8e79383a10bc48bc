// The report section on where the time goes: categories by phase and mode, and the top kernels.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/sort_by.h"
#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/quiet.h"
#include "report/record_cells.h"
#include "studies/places.h"
#include "studies/profile/fold_rows.h"
#include "studies/profile/tables.h"

namespace ridgeline {
namespace {

// In the order of a step; other phases follow.
std::vector<FoldRow> phases_in_order(const Record& record) {
  constexpr std::string_view kOrder[] = {"forward", "backward", "optimizer"};
  std::vector<FoldRow> phases = fold_rows(record, "phase");
  sort_by(phases, [&](const FoldRow& phase) {
    return std::ranges::find(kOrder, std::string_view(phase.key)) - std::begin(kOrder);
  });
  return phases;
}

// Stacked bars: one per mode and phase, one colour per category of work.
Chart category_chart(const std::vector<const Record*>& rows) {
  constexpr size_t kMostBars = 24, kMostCategories = 12;
  Chart chart{.kind = Chart::Kind::stacked_bars,
              .id = "profile-categories",
              .title = "Time by phase and kind of work",
              .description =
                  "Summed time of kernels in a step, one bar per implementation and "
                  "phase, one colour per category of work."};
  std::vector<double> totals;
  for (const Record* record : rows)
    for (const FoldRow& phase : phases_in_order(*record)) {
      if (chart.categories.size() == kMostBars) break;
      const auto at = static_cast<double>(chart.categories.size());
      double total = 0;
      for (const FoldRow& row : fold_rows(*record, "phase_category", phase.key)) {
        const double ms = row.total_ms.value_or(0);
        if (!(ms > 0)) continue;
        const std::string name = shown(row.key, 40);
        ChartSeries* series = tensor_series(chart, name, category_colour(name), kMostCategories);
        if (series == nullptr) continue;
        series->points.push_back({at, ms, quantity_text(Quantity::milliseconds, ms)});
        total += ms;
      }
      if (!(total > 0)) continue;
      chart.categories.push_back(
          fmt::format("{}, {}", shown(record->implementation, 40), shown(phase.key, 40)));
      totals.push_back(total);
    }
  if (!totals.empty())
    chart.y = linear_axis("summed time of kernels", Quantity::milliseconds, totals, Better::lower);
  return chart;
}

// Names the category and the kernel that take most of a step.
std::string most_words(const Record& record) {
  const std::vector<FoldRow> kinds = fold_rows(record, "category"),
                             kernels = fold_rows(record, "kernel");
  if (kinds.empty() || kernels.empty() || !kinds.front().share || !kernels.front().share) return {};
  std::string phases;
  for (const FoldRow& phase : phases_in_order(record))
    if (phase.share)
      phases +=
          fmt::format("{}{} {:.0f} %", phases.empty() ? "" : ", ", phase.key, 100 * *phase.share);
  return shown(fmt::format("{}: {} is {:.0f} % of the time, {} in {} alone {:.0f} %{}{}.",
                           record.implementation, kinds.front().key, 100 * *kinds.front().share,
                           kernels.front().key, kernels.front().phase, 100 * *kernels.front().share,
                           phases.empty() ? "" : "; by phase: ", phases),
               400);
}

// The median of a step without the tracer.
std::optional<double> untraced_ms(const Record& record) {
  return metric_number(record, "untraced_step_ms");
}

// "A step of vanilla: 172 ms untraced, the time to quote; 165 ms traced; 163 ms in kernels, the
// bars.": explains the different times of one step.
std::string times_of_step(const Record& record) {
  const auto untraced = untraced_ms(record);
  const auto traced = metric_number(record, "traced_step_ms");
  const auto busy = metric_in(record.metrics, "device_time", "busy_ms");
  if (!untraced || !traced) return {};
  const auto text = [](double ms) { return quantity_text(Quantity::milliseconds, ms); };
  return fmt::format("A step of {}: {} untraced, the time to quote; {} traced{}.",
                     shown(record.implementation, 40), text(*untraced), text(*traced),
                     busy ? fmt::format("; {} in kernels, the bars", text(*busy)) : "");
}

bool is_same_model(const Record& model, const Record& profiled) {
  return text_of(model.workload, "num_params") == text_of(profiled.workload, "num_params");
}

// Full steps of one whole transformer, vanilla and compiled: of the profiled model if it was
// measured, else of the first. Null if there is no such pair.
std::pair<const Record*, const Record*> whole_models(const ReportContext& context,
                                                     const Record& profiled) {
  std::map<std::string, const Record*> compiled;
  const auto key = [](const Record& row) {
    return row.workload.dump() + row.settings.dump() + row.device + row.machine.fingerprint;
  };
  const auto is_step = [](const Record& row, std::string_view mode) {
    return row.study == "model" && row.implementation == mode && median_of(row, "full_step");
  };
  for (const Record* row : context.rows)
    if (is_step(*row, "compiled")) compiled.try_emplace(key(*row), row);
  std::pair<const Record*, const Record*> first;
  for (const Record* row : context.rows) {
    if (!is_step(*row, "vanilla")) continue;
    const auto found = compiled.find(key(*row));
    if (found == compiled.end()) continue;
    if (is_same_model(*row, profiled)) return {row, found->second};
    if (!first.first) first = {row, found->second};
  }
  return first;
}

// Compares compiled with vanilla, and says if the section on whole transformers shows the opposite.
std::string modes_words(const ReportContext& context, const std::vector<const Record*>& rows) {
  const auto first = [&](std::string_view mode, const Record* like) -> const Record* {
    for (const Record* row : rows)
      if (row->implementation == mode && (!like || row->settings == like->settings)) return row;
    return nullptr;
  };
  const Record* low = first("vanilla", nullptr);
  const Record* high = low ? first("compiled", low) : nullptr;
  const auto before = low ? untraced_ms(*low) : std::nullopt,
             after = high ? untraced_ms(*high) : std::nullopt;
  if (!before || !after || !(*before > 0) || !(*after > 0)) return {};
  const auto text = [](double ms) { return quantity_text(Quantity::milliseconds, ms); };
  const std::string words =
      fmt::format(" Untraced, compiled takes {} where vanilla takes {}: few steps, no verdict",
                  text(*after), text(*before));
  const auto [slow, fast] = whole_models(context, *low);
  if (!slow) return words + ".";
  const auto slow_ms = median_of(*slow, "full_step"), fast_ms = median_of(*fast, "full_step");
  const bool is_other = !is_same_model(*slow, *low);
  const bool is_opposite = (*slow_ms < *fast_ms) != (*before < *after);
  return fmt::format("{}{}{}.", words,
                     is_other ? ", and another model than under Whole transformers" : "",
                     is_opposite ? fmt::format("{} it is the other way round, {} against {}",
                                               is_other ? ", where" : "; under Whole transformers",
                                               text(*fast_ms), text(*slow_ms))
                                 : "");
}

}  // namespace

ReportSection profile_section(const ReportContext& context) {
  constexpr size_t kMostTables = 8, kTopKernels = 10, kMostAnswers = 40;
  ReportSection section{.id = "profile",
                        .title = "Where the time goes",
                        .question = "Which kernels take the time of a step?"};
  const auto view_of = [](const Record& record) {
    return fmt::format("{}, {}", profile_workload_name(record),
                       record.machine.gpu ? record.machine.gpu->model : "CPU");
  };
  const std::vector<const Record*> rows = rows_of_study(context.rows, "profile");
  if (rows.empty()) return section;
  // Rows of PyTorch have its optimizer.
  constexpr std::string_view kOptimizer[] = {"optimizer"};
  std::vector<RowPlace> views = places_of(rows, view_of, kOptimizer);
  sort_by(views, &RowPlace::name);
  std::string times;
  for (const Record* record : rows)
    if (const std::string most = most_words(*record); section.answer.empty() && !most.empty()) {
      times = times_of_step(*record);
      const auto view = std::ranges::find_if(views, [&](const RowPlace& each) {
        return std::ranges::find(each.rows, record) != each.rows.end();
      });
      section.answer = most + modes_words(context, view->rows);
    }
  section.certainty =
      certainty_of_times(context, "profile", times.empty() ? "Means over traced steps." : times);
  for (const Record* record : rows)
    for (const std::string& answer : profile_answers(*record))
      if (section.sentences.size() < kMostAnswers)
        section.sentences.push_back(
            shown(named_model(profile_name(*record), record->workload) + ": " + answer, 400));
  for (const std::string& note : profile_notes(rows))
    section.sentences.push_back(
        shown(views.size() == 1 ? named_model(note, rows.front()->workload) : note, 400));
  for (const auto& [name, of] : views) {
    if (section.views.size() == kMostViews) break;
    if (Chart chart = category_chart(of); !chart.series.empty())
      section.views.push_back({.name = shown(named_model(name, of.front()->workload), 200),
                               .charts = {std::move(chart)}});
  }
  Table modes = profile_modes(rows);
  modes.title = "Modes side by side, of one step";
  section.tables.push_back(as_report_table(modes));
  for (const Record* record : rows) {
    if (section.tables.size() > kMostTables) break;
    Table kernels = profile_folds(*record, "kernel", kTopKernels);
    if (kernels.rows.empty()) continue;
    kernels.title = "Kernels of " + named_model(profile_name(*record), record->workload);
    section.tables.push_back(as_report_table(kernels));
  }
  return section;
}

}  // namespace ridgeline
