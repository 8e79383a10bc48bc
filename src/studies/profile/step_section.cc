// The report section on what runs when: the kernels of one step on tracks, with zoom and search.
#include <fmt/format.h>

#include <algorithm>

#include "base/sort_by.h"
#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/quiet.h"
#include "report/record_cells.h"
#include "studies/profile/fold_rows.h"
#include "studies/profile/recorded_step.h"
#include "studies/profile/tables.h"

namespace ridgeline {
namespace {

Chart step_chart(const RecordedStep& step) {
  constexpr size_t kMostKinds = 12;
  Chart chart{.kind = Chart::Kind::tracks,
              .id = "kernel-timeline",
              .title = "One step, kernel by kernel",
              .description =
                  "Every kernel of one step from its beginning to its end, one colour "
                  "per kind of work.",
              .categories = step.tracks,
              .zooms = true};
  std::vector<double> ends;
  for (const RecordedStep::Work& work : step.work) {
    ChartSeries* series =
        tensor_series(chart, work.category, category_colour(work.category), kMostKinds);
    if (series == nullptr) continue;
    const double begin = 1e-3 * work.begin_us, end = begin + 1e-3 * work.us;
    series->points.push_back(
        {.x = static_cast<double>(work.track),
         .y = end,
         .text = fmt::format("{}, {} of {}: {:.4g} us", work.name, work.phase,
                             work.scope.empty() ? "the model" : work.scope, work.us),
         .from = begin});
    ends.push_back(end);
  }
  chart.y = linear_axis("time from the beginning of the step", Quantity::milliseconds, ends);
  if (!ends.empty()) chart.y.max = *std::ranges::max_element(ends);
  return chart;
}

// Only the longest pieces: a list of all would be too long to read.
Table longest_work(const RecordedStep& step, const std::string& title) {
  constexpr size_t kTop = 12;
  Table table{
      .title = title, .columns = {"kernel", "phase", "part of the model", "us"}, .rows = {}};
  std::vector<const RecordedStep::Work*> sorted;
  for (const RecordedStep::Work& work : step.work) sorted.push_back(&work);
  sort_by_falling(sorted, &RecordedStep::Work::us);
  for (size_t i = 0; i < std::min(kTop, sorted.size()); ++i)
    table.rows.push_back({sorted[i]->name, sorted[i]->phase, sorted[i]->scope,
                          fmt::format("{:.4g}", sorted[i]->us)});
  return table;
}

std::string busy_words(const Record& record, const RecordedStep& step) {
  double end = 0, most = 0;
  const RecordedStep::Work* longest = nullptr;
  for (const RecordedStep::Work& work : step.work) {
    end = std::max(end, work.begin_us + work.us);
    if (work.us > most) most = work.us, longest = &work;
  }
  if (!longest || !(end > 0)) return {};
  std::string text = fmt::format(
      "{} pieces of work in {}, one traced step of {}; the longest, {} in {}, takes {:.1f} %",
      step.work.size(), quantity_text(Quantity::milliseconds, 1e-3 * end), record.implementation,
      longest->name, longest->phase, 100 * most / end);
  if (const auto waited = metric_in(record.metrics, "device_time", "waited_for_host_ms"))
    text += fmt::format("; the device waits for the host {} of a step",
                        quantity_text(Quantity::milliseconds, *waited));
  return text + ".";
}

}  // namespace

ReportSection step_section(const ReportContext& context) {
  constexpr size_t kMostSteps = 12;
  ReportSection section{
      .id = "step", .title = "Kernels over a step", .question = "What runs when?"};
  for (const Record* record : context.rows) {
    if (record->study != "profile" || !record->workload.is_object()) continue;
    const auto step = recorded_step(*record);
    if (!step || section.views.size() == kMostSteps) continue;
    const std::string name = shown(named_model(profile_name(*record), record->workload), 120);
    Chart chart = step_chart(*step);
    chart.numbers = longest_work(*step, "The longest pieces of work");
    if (step->left_out > 0)
      section.sentences.push_back(
          fmt::format("{}: {} later pieces of the step are left out.", name, step->left_out));
    if (section.views.empty()) {
      section.answer = shown(busy_words(*record, *step), 400);
      if (metric_in(record->metrics, "device_time", "waited_for_host_ms"))
        section.question = "What runs when, and where does the device wait?";
    }
    section.views.push_back({.name = name, .charts = {std::move(chart)}});
  }
  section.certainty = certainty_of_times(context, "profile", "One step, not the median.");
  return section;
}

}  // namespace ridgeline
