// Time of attention and of its kernels against the sequence length, and speedups.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "measure/statistics.h"
#include "report/page/axis.h"
#include "report/record_cells.h"
#include "studies/attention/tables.h"
#include "studies/kernel/tables.h"

namespace ridgeline {
namespace {

std::string with_interval(double median, const Statistics& statistics) {
  const double half_width = relative_half_width(statistics);
  std::string text = quantity_text(Quantity::milliseconds, median);
  if (std::isfinite(half_width)) text += fmt::format(" +-{:.1f} %", 100 * half_width);
  return text;
}

Chart latency_chart(const ReportContext& context, const LengthGroup& group, const char* phase) {
  Chart chart{.id = fmt::format("latency-{}", phase),
              .title = fmt::format("{} time",
                                   phase == std::string_view("forward") ? "Forward" : "Backward"),
              .description = fmt::format("Median {} time against the sequence length, both axes "
                                         "logarithmic, one line per implementation.",
                                         phase)};
  std::vector<double> xs, ys;
  for (const std::string& name : group.implementations) {
    ChartSeries series{.name = name};
    for (const LengthRow& row : group.rows) {
      if (row.implementation != name) continue;
      const auto median = median_of(*row.record, phase);
      if (!median || *median <= 0) continue;
      series.colour = context.colour(row.record->implementation);
      const auto x = static_cast<double>(row.seq_len);
      series.points.push_back(
          {x, *median, with_interval(*median, row.record->find_series(phase)->statistics)});
      xs.push_back(x);
      ys.push_back(*median);
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  chart.x = log_axis("sequence length", Quantity::length, xs);
  chart.y = log_axis("median time", Quantity::milliseconds, ys);
  return chart;
}

Chart speedup_chart(const ReportContext& context, const LengthGroup& group, const char* phase) {
  const std::string base = baseline_of(group.implementations);
  Chart chart{
      .kind = Chart::Kind::bars,
      .id = fmt::format("speedup-{}", phase),
      .title = fmt::format("Speedup over {}, {}", base, phase),
      .description = fmt::format("How many times as fast as {} each implementation runs {}, "
                                 "by sequence length; 1 is as fast.",
                                 base, phase),
      .reference = 1.0};
  std::vector<int64_t> lengths = group.lengths();
  constexpr size_t kMostBars = 24;  // the longest sequences: there speed counts
  if (lengths.size() > kMostBars) lengths.erase(lengths.begin(), lengths.end() - kMostBars);
  for (const int64_t length : lengths) {
    std::string& category = chart.categories.emplace_back(fmt::format("S {}", length));
    for (const std::string& name : group.implementations)
      category += failure_note(name, group.find(name, length), phase);
  }
  std::vector<double> values = {1};
  for (const std::string& name : group.implementations) {
    if (name == base) continue;
    ChartSeries series{.name = name};
    for (size_t i = 0; i < lengths.size(); ++i) {
      const Record* before = group.find(base, lengths[i]);
      const Record* after = group.find(name, lengths[i]);
      if (before == nullptr || after == nullptr) continue;
      const double before_ms = median_of(*before, phase).value_or(0);
      const double after_ms = median_of(*after, phase).value_or(0);
      if (before_ms <= 0 || after_ms <= 0) continue;
      const double speedup = before_ms / after_ms;
      series.colour = context.colour(after->implementation);
      series.points.push_back(
          {static_cast<double>(i), speedup, quantity_text(Quantity::ratio, speedup)});
      values.push_back(speedup);
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  chart.y = linear_axis(fmt::format("times as fast as {}", base), Quantity::ratio, values);
  return chart;
}

void add_views(const ReportContext& context, const LengthStudy& study, ReportSection& section) {
  for (const LengthGroup& group : study.groups) {
    if (section.views.size() == kMostViews) {
      section.sentences.push_back(
          fmt::format("Charts show {} of {} settings, those with the most rows; the table of all "
                      "rows has the others.",
                      kMostViews, study.groups.size()));
      break;
    }
    ReportView view{.name = group.name};
    for (const char* phase : {"forward", "backward"})
      if (Chart chart = latency_chart(context, group, phase); !chart.series.empty())
        view.charts.push_back(std::move(chart));
    for (const char* phase : {"forward", "backward"})
      if (Chart chart = speedup_chart(context, group, phase); !chart.series.empty())
        view.charts.push_back(std::move(chart));
    if (!view.charts.empty()) section.views.push_back(std::move(view));
  }
}

ReportSection time_section(const ReportContext& context, const char* study_name,
                           const char* title) {
  ReportSection section{.id = study_name, .title = title};
  const LengthStudy study = length_study(context, study_name);
  add_views(context, study, section);
  if (!section.views.empty() && !study.shared.empty())
    section.sentences.insert(
        section.sentences.begin(),
        fmt::format(
            "All rows: {}. Times are medians; +- is half the width of their 95 % interval, {}.",
            study.shared, interval_kind(context.rows)));
  if (!study.all_shown)
    section.sentences.push_back(
        fmt::format("Charts show the first {} implementations of each setting; the table of all "
                    "rows has the others.",
                    kMostImplementations));
  return section;
}

}  // namespace

ReportSection attention_time_section(const ReportContext& context) {
  ReportSection section = time_section(context, "attention", "Attention: time");
  // Its sentences are about each implementation by itself.
  if (section.empty() || context.colours.size() > kMostImplementations) return section;
  for (const std::string& sentence : explain_attention(context.input.records, *context.verdicts))
    section.sentences.push_back(sentence);
  return section;
}

ReportSection kernel_section(const ReportContext& context) {
  ReportSection section = time_section(context, "kernel", "Attention kernels");
  for (ReportView& view : section.views)
    for (Chart& chart : view.charts) chart.id = "kernel-" + chart.id;
  if (!section.empty())
    for (const std::string& note : kernel_notes(context.input.records))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline
