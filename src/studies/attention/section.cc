// Report sections: time of attention and of its kernels against the sequence length, and speedups.
#include <fmt/format.h>

#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/quiet.h"
#include "report/page/roofline_dots.h"
#include "report/page/winners.h"
#include "report/record_cells.h"
#include "studies/attention/tables.h"
#include "studies/kernel/tables.h"

namespace ridgeline {
namespace {

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
      auto point = timed_point(static_cast<double>(row.seq_len), *row.record, phase);
      if (!point) continue;
      point->text = fmt::format("S {}, {}", row.seq_len, point->text);
      series.colour = context.colour(row.record->implementation);
      series.implementation = shown(row.record->implementation, 60);
      xs.push_back(point->x);
      ys.push_back(point->y);
      series.points.push_back(std::move(*point));
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  if (chart.series.size() == 1)
    chart.title += " of " + chart.series.front().name;  // it has no legend
  chart.x = log_axis("sequence length", Quantity::length, xs);
  chart.y = log_axis("median time", Quantity::milliseconds, ys, Better::lower);
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
  constexpr size_t kMostBars = 24;  // the longest sequences, where speed matters
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
      auto point = speedup_point(static_cast<double>(i), *before, *after, phase);
      if (!point) continue;
      series.colour = context.colour(after->implementation);
      series.implementation = shown(after->implementation, 60);
      values.push_back(point->has_interval() ? point->high : point->y);
      series.points.push_back(std::move(*point));
    }
    if (!series.points.empty()) chart.series.push_back(std::move(series));
  }
  chart.y = linear_axis(fmt::format("times as fast as {}", base), Quantity::ratio, values,
                        Better::higher);
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

// The answer for a single implementation: its slowest forward time, and its share of the roof.
void answer_alone(const ReportContext& context, const LengthStudy& study, const char* study_name,
                  ReportSection& section) {
  const LengthRow* told = nullptr;
  const LengthGroup* group_of = nullptr;
  const auto ms_of = [](const LengthRow& row) { return median_of(*row.record, "forward"); };
  for (const LengthGroup& group : study.groups)
    for (const LengthRow& row : group.rows)
      if (ms_of(row) && (!told || *ms_of(row) > *ms_of(*told))) told = &row, group_of = &group;
  if (!told) return;
  const RooflineDot* dot = context.dot(*told->record, "forward");
  section.question = study_name == std::string_view("kernel")
                         ? "How fast is an attention kernel by itself?"
                         : "How fast is attention?";
  section.answer = fmt::format("{} takes {} forward at {}{}.", told->implementation,
                               quantity_text(Quantity::milliseconds, *ms_of(*told)),
                               place_of(*group_of, told->seq_len),
                               dot && dot->roof ? ", " + dot_bound(*dot).of_roof : "");
  section.certainty = certainty_of_times(context, study_name, "A median.");
}

ReportSection time_section(const ReportContext& context, const char* study_name, const char* title,
                           const char* question) {
  ReportSection section{.id = study_name, .title = title, .question = question};
  const LengthStudy study = length_study(context, study_name);
  add_views(context, study, section);
  FastestAnswer answer = fastest_answer(context, study);
  section.answer = std::move(answer.text);
  section.certainty = std::move(answer.certainty);
  if (!answer.why_undecided.empty()) section.sentences.push_back(std::move(answer.why_undecided));
  if (study.implementations.size() == 1 && section.answer.empty())
    answer_alone(context, study, study_name, section);
  if (can_be_compared(study))
    if (ReportTable table = fastest_table(context, study); !table.rows.empty())
      section.tables.push_back(std::move(table));
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
  ReportSection section = time_section(context, "attention", "Attention: time",
                                       "Which attention is the fastest at which length?");
  // The sentences are per implementation: with many of them there are too many.
  if (section.empty() || context.colours.size() > kMostImplementations) return section;
  for (const std::string& sentence : explain_attention(context.rows, *context.verdicts))
    section.sentences.push_back(sentence);
  return section;
}

ReportSection kernel_section(const ReportContext& context) {
  ReportSection section = time_section(context, "kernel", "Attention kernels",
                                       "Which attention kernel by itself is the fastest?");
  for (ReportView& view : section.views)
    for (Chart& chart : view.charts) chart.id = "kernel-" + chart.id;
  if (!section.empty())
    for (const std::string& note : kernel_notes(context.rows))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline
