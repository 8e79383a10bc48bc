// The report section on memory over a step: live bytes event by event, predicted and measured, and
// tables of peaks, of the tensors that are live there, and of the largest tensors.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/sort_by.h"
#include "measure/record_values.h"
#include "report/page/axis.h"
#include "studies/memory/recorded_timeline.h"
#include "studies/memory/timeline_tables.h"
#include "studies/profile/tables.h"

namespace ridgeline {
namespace {

double number(Bytes bytes) {
  return static_cast<double>(bytes.count);
}

std::string level_text(Bytes bytes) {
  return quantity_text(Quantity::bytes, number(bytes));
}

// "42.1 GiB with +128 MiB scores ... by matmul".
std::string point_text(const RecordedTimeline::Point& point) {
  const Bytes size{std::abs(point.change.count)};
  return shown(fmt::format("{} with {}{} {}", level_text(point.live),
                           point.change.count < 0 ? "-" : "+", level_text(size), point.tensor),
               200);
}

// Ticks are the beginnings of phases; a tick too close to the one before it is left out.
Axis event_axis(const RecordedTimeline& timeline) {
  constexpr double kApart = 0.12;
  const auto first = static_cast<double>(timeline.points.front().event);
  const auto last = static_cast<double>(timeline.points.back().event);
  Axis axis{.label = "allocations and releases, in order",
            .min = first,
            .max = std::max(last, first + 1)};
  for (const RecordedTimeline::Phase& phase : timeline.phases) {
    const auto at = static_cast<double>(phase.first_event);
    const bool has_room =
        axis.ticks.empty() || at - axis.ticks.back().value > kApart * (axis.max - axis.min);
    if (has_room && at >= axis.min && at <= axis.max)
      axis.ticks.push_back({at, shown(phase.name, 20)});
  }
  return axis;
}

// The table of the chart: a few moments instead of hundreds of points.
Table numbers_of(const RecordedTimeline& timeline, const std::string& title) {
  Table table{.title = title, .columns = {"moment", "live", "kept"}, .rows = {}};
  table.rows.push_back({"inputs", level_text(timeline.inputs), ""});
  for (const RecordedTimeline::Stair& stair : timeline.stairs)
    table.rows.push_back({fmt::format("after {} of forward", shown(stair.layer, 40)),
                          level_text(stair.live), level_text(stair.kept)});
  for (const RecordedTimeline::Phase& phase : timeline.phases)
    table.rows.push_back(
        {fmt::format("peak of {}", shown(phase.name, 20)), level_text(phase.peak), ""});
  return table;
}

// Returns "scores" for "scores fp32[4, 32, 512, 512] of layers.3.attention.scores by matmul"; for a
// tensor with only a numbered name such as "matmul_12", the scope in the model.
std::string short_name(const std::string& tensor) {
  const std::string name = tensor.substr(0, tensor.find(' '));
  const size_t number = name.rfind('_'), scope = tensor.find(" of ");
  const bool is_numbered = number != std::string::npos && number + 1 < name.size() &&
                           std::all_of(name.begin() + static_cast<std::ptrdiff_t>(number) + 1,
                                       name.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_numbered || scope == std::string::npos) return shown(name, 24);
  const size_t begin = scope + 4;
  return shown(tensor.substr(begin, tensor.find(' ', begin) - begin), 28);
}

// Returns the size from which allocations are labelled: that of the 24th largest.
int64_t named_from(const RecordedTimeline& timeline) {
  constexpr size_t kNamed = 24;
  std::vector<int64_t> sizes;
  for (const RecordedTimeline::Point& point : timeline.points)
    if (point.change.count > 0) sizes.push_back(point.change.count);
  sort_by_falling(sizes, std::identity());
  if (sizes.empty()) return 1;
  return std::max<int64_t>(1, sizes[std::min(kNamed, sizes.size()) - 1]);
}

// Inputs are live for the whole step, so the chart shows them as bands below the curve, by kind if
// the record has kinds. The kinds of other tensors are known at the peak only.
std::vector<ChartSeries> bands_below(const Record& record, const RecordedTimeline& timeline) {
  const auto stays = [&](const RecordedTimeline::Point& point) {
    return std::min(point.live, point.predicted) >= timeline.inputs;
  };
  const Json* held = record.metrics ? record.metrics->find_key("at_peak") : nullptr;
  if (!held || !std::ranges::all_of(timeline.points, stays)) return {};
  std::vector<ChartSeries> bands;
  double level = 0, rest = number(timeline.inputs);
  for (const auto& [key, name] : {std::pair("parameters_bytes", "parameters"),
                                  {"optimizer_state_bytes", "optimizer state"}}) {
    const double bytes = number_in(*held, key).value_or(0);
    if (!(bytes > 0) || bytes > rest) continue;
    level += bytes;
    rest -= bytes;
    const std::string text = fmt::format("{} {}", name, quantity_text(Quantity::bytes, bytes));
    // Higher bands are drawn first, behind the lower ones.
    bands.insert(bands.begin(),
                 {.name = name,
                  .mark = ChartSeries::Mark::area,
                  .colour = static_cast<int>(bands.size()),
                  .points = {{static_cast<double>(timeline.points.front().event), level, text},
                             {static_cast<double>(timeline.points.back().event), level, text}},
                  .palette = ChartSeries::Palette::tensors});
  }
  return bands;
}

Chart timeline_chart(const ReportContext& context, const Record& record,
                     const RecordedTimeline& timeline) {
  const std::string scenario = text_at(record.workload, "scenario");
  Chart chart{.id = "memory-timeline-" + scenario,
              .title = fmt::format("Memory over {}",
                                   scenario == "forward" ? "forward, activations kept" : scenario),
              .description = "Live bytes after every allocation and release, in their order.",
              .x = event_axis(timeline),
              .zooms = true};
  ChartSeries predicted{.name = "predicted", .mark = ChartSeries::Mark::area, .colour = -1};
  ChartSeries measured{.name = "measured by the ledger",
                       .mark = ChartSeries::Mark::steps,
                       .colour = context.colour(record.implementation)};
  std::vector<double> levels;
  const int64_t worth_naming = named_from(timeline);
  for (const RecordedTimeline::Point& point : timeline.points) {
    const auto x = static_cast<double>(point.event);
    const std::string label =
        point.change.count >= worth_naming ? short_name(point.tensor) : std::string();
    predicted.points.push_back(
        {x, number(point.predicted),
         timeline.is_measured ? level_text(point.predicted) : point_text(point)});
    if (timeline.is_measured) measured.points.push_back({x, number(point.live), point_text(point)});
    (timeline.is_measured ? measured : predicted).points.back().label = label;
    levels.push_back(number(std::max(point.live, point.predicted)));
  }
  chart.series = bands_below(record, timeline);
  chart.series.push_back(std::move(predicted));
  if (timeline.is_measured) chart.series.push_back(std::move(measured));
  chart.y = linear_axis("live memory", Quantity::bytes, levels, Better::lower);
  chart.numbers = numbers_of(timeline, chart.title);
  return chart;
}

std::string view_name(const Record& record) {
  return shown(
      named_model(fmt::format("{}, {}, {}", timeline_workload_name(record), record.implementation,
                              record.machine.gpu ? record.machine.gpu->model : "CPU"),
                  record.workload),
      120);
}

// Returns the row with the highest peak, or null if no row has a timeline.
const Record* highest_of(const std::vector<const Record*>& rows) {
  const Record* most = nullptr;
  Bytes peak;
  for (const Record* record : rows)
    if (const auto timeline = recorded_timeline(*record);
        timeline && (!most || timeline->peak > peak))
      most = record, peak = timeline->peak;
  return most;
}

// Describes when the peak of a row occurs and which tensors take most of it.
std::string peak_words(const Record& record) {
  const auto told = recorded_timeline(record);
  std::string text = fmt::format("{}, context {}: the peak of {} comes in {}",
                                 record.implementation, text_at(record.workload, "context_length"),
                                 level_text(told->peak), told->at_peak.phase);
  if (const std::string kinds = kinds_at_peak(record); !kinds.empty()) text += " with " + kinds;
  if (!told->held.empty()) {
    const RecordedTimeline::Tensors& largest = told->held.front();
    text += fmt::format(". Its largest tensors are {}{}{}{}, {}{}",
                        largest.count > 1 ? fmt::format("{} times ", largest.count) : "",
                        largest.name, largest.type.empty() ? "" : " " + largest.type,
                        largest.scope.empty() ? "" : " of " + largest.scope,
                        level_text(largest.total()), largest.count > 1 ? " together" : "");
  }
  return shown(text + ".", 400);
}

}  // namespace

ReportSection timeline_section(const ReportContext& context) {
  constexpr size_t kMostTables = 8, kTop = 12, kMostAnswers = 12;
  ReportSection section{.id = "memory-timeline",
                        .title = "Memory over a step",
                        .question = "Which tensors hold the memory of a step?"};
  std::vector<const Record*> rows;
  std::map<std::string, size_t> places;
  for (const Record* record : rows_of_study(context.rows, "memory")) {
    const auto timeline = recorded_timeline(*record);
    if (!timeline) continue;
    rows.push_back(record);
    if (timeline->points.size() < 2) continue;
    const std::string name = view_name(*record);
    const auto [place, is_new] = places.emplace(name, section.views.size());
    if (is_new && section.views.size() == kMostViews) continue;
    if (is_new) section.views.push_back({.name = name});
    if (place->second < section.views.size())
      section.views[place->second].charts.push_back(timeline_chart(context, *record, *timeline));
  }
  if (rows.empty()) return section;
  // The largest scenario is shown first.
  for (ReportView& view : section.views) std::ranges::reverse(view.charts);
  section.sentences.push_back("Forward is that of training: it keeps what backward needs.");
  if (const Record* highest = highest_of(rows)) {
    section.answer = peak_words(*highest);
    // The view of the row that the answer describes is shown first.
    const auto view = std::ranges::find(section.views, view_name(*highest), &ReportView::name);
    if (view != section.views.end()) std::rotate(section.views.begin(), view, view + 1);
  }
  section.certainty = {
      .level = rows.front()->memory.peak ? Certainty::Level::measured : Certainty::Level::counted,
      .why = rows.front()->memory.peak ? "By the ledger, byte by byte."
                                       : "Predicted from graph and plan; nothing was run."};
  for (const Record* record : rows) {
    std::string text = named_model(profile_name(*record), record->workload) + ":";
    for (const std::string& answer : timeline_answers(*record)) text += " " + answer;
    if (section.sentences.size() < kMostAnswers) section.sentences.push_back(shown(text, 800));
  }
  for (const std::string& note : timeline_notes(rows))
    section.sentences.push_back(shown(note, 400));
  section.tables.push_back(as_report_table(timeline_peaks(rows)));
  for (std::vector<ReportCell>& row : section.tables.back().rows)
    for (const Record* record : rows)
      if (!row.empty() && row.front().text == timeline_workload_name(*record))
        row.front().text = shown(named_model(row.front().text, record->workload), 120);
  for (const Record* record : rows) {
    const std::string of = " of " + named_model(profile_name(*record), record->workload);
    for (Table table : {held_at_peak(*record, kTop), largest_tensors_of(*record, kTop)}) {
      if (section.tables.size() > kMostTables || table.rows.empty()) continue;
      table.title += of;
      section.tables.push_back(as_report_table(table));
    }
  }
  return section;
}

}  // namespace ridgeline
