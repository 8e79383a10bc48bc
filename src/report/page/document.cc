#include "report/page/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/enum_names.h"
#include "report/page/points.h"
#include "report/page/sections.h"
#include "report/page/short_paths.h"
#include "report/page/terms.h"

namespace ridgeline {
namespace {

// "12 rows (attention, kernel) on NVIDIA H200, 2026-11-15."
std::string subtitle_of(const ReportContext& context) {
  std::set<std::string> studies, machines, days;
  for (const Record* record : context.rows) {
    studies.insert(shown(record->study, 30));
    machines.insert(record->machine.gpu ? shown(record->machine.gpu->model, 40)
                                        : shown(record->machine.cpu_model, 60));
    days.insert(shown(record->time.substr(0, 10), 10));
  }
  const auto few = [](const std::set<std::string>& words, const char* many) {
    if (words.size() > 4) return fmt::format("{} {}", words.size(), many);
    std::string text;
    for (const std::string& word : words)
      if (!word.empty()) text += (text.empty() ? "" : ", ") + word;
    return text;
  };
  if (context.rows.empty()) return "No rows.";
  std::string text =
      fmt::format("{} ({}) on {}", counted(context.rows.size(), "row"), few(studies, "studies"),
                  machines.size() == 1 && machines.begin()->empty() ? "a machine without facts"
                                                                    : few(machines, "machines"));
  text += days.size() == 1 ? fmt::format(", {}", *days.begin())
                           : fmt::format(", {} to {}", *days.begin(), *days.rbegin());
  return text + ".";
}

std::string footer_of(const ReportContext& context) {
  constexpr size_t kMostNamed = 3;
  std::string text;
  const std::vector<std::string> sources = short_paths(context.input.sources);
  for (size_t i = 0; i < std::min(sources.size(), kMostNamed); ++i)
    text += (text.empty() ? "" : ", ") + shown(sources[i], 200);
  if (sources.size() > kMostNamed)
    text += fmt::format(" and {} more files", sources.size() - kMostNamed);
  text = fmt::format("Made by {} at {} from {}.", context.input.made_by, context.input.made_at,
                     text.empty() ? "no file" : text);
  if (context.superseded > 0)
    text += fmt::format(" {} measured again later {} not shown.",
                        counted(static_cast<size_t>(context.superseded), "row"),
                        context.superseded == 1 ? "is" : "are");
  return text;
}

// Cuts a list of sentences to a readable length.
void limit_sentences(std::vector<std::string>& sentences) {
  constexpr size_t kMost = 24;
  if (sentences.size() <= kMost) return;
  const size_t dropped = sentences.size() - kMost;
  sentences.resize(kMost);
  sentences.push_back(fmt::format("{} more sentences of this kind are left out.", dropped));
}

std::string tick_or_number(const Axis& axis, double value) {
  for (const Tick& tick : axis.ticks)
    if (std::abs(tick.value - value) <= 1e-9 * std::abs(value)) return tick.text;
  const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
  return is_whole ? fmt::format("{:.0f}", value) : fmt::format("{:.6g}", value);
}

constexpr std::string_view kWithinRun = " within-run";

// Removes from a cell what the head of its row or column says: "S 256, 848 us" in the row 256
// becomes "848 us". Only tooltips need the whole text.
std::string without_head(std::string text, std::string_view head) {
  for (const std::string_view join : {", ", ": ", " "}) {
    const size_t end = text.find(join);
    // The first part may also end with the head: "S 256" in the row 256.
    const size_t begin =
        std::string_view(text).starts_with(std::string(head) + std::string(join))
            ? head.size() + join.size()
        : end != text.npos && join == ", " && text.substr(0, end).ends_with(" " + std::string(head))
            ? end + join.size()
            : 0;
    if (!head.empty() && begin > 0) return text.substr(begin);
  }
  if (const size_t of = text.rfind(" of "); of != text.npos && of > 0) {
    const std::string whose = text.substr(of + 4);
    if (head == whose || head.starts_with(whose + " (") || head.ends_with(", " + whose))
      return text.substr(0, of);
  }
  return text;
}

// Moves "within-run" from the cells to the head of the table.
void move_within_run(Table& table) {
  for (const std::vector<std::string>& row : table.rows)
    for (const std::string& text : row)
      if (text.find(" between runs") != text.npos) return;  // each cell says which it is
  bool is_told = false;
  for (std::vector<std::string>& row : table.rows)
    for (std::string& text : row)
      if (const size_t at = text.find(kWithinRun); at != text.npos) {
        text.erase(at, kWithinRun.size());
        is_told = true;
      }
  if (!is_told) return;
  std::string& head = table.columns.front();
  head += fmt::format("{}intervals within-run", head.empty() ? "" : "; ");
}

}  // namespace

Table chart_table(const Chart& chart) {
  if (chart.numbers) return *chart.numbers;
  Table table{.title = chart.title};
  const bool has_lines =
      chart.kind != Chart::Kind::xy ||
      std::any_of(chart.series.begin(), chart.series.end(), [](const ChartSeries& s) {
        return s.mark == ChartSeries::Mark::line_and_points;
      });
  if (!has_lines) {
    table.columns = {"series", "point"};
    for (const ChartSeries& series : chart.series)
      for (const ChartPoint& point : series.points)
        table.rows.push_back({series.name, without_head(point.text, series.name)});
    return table;
  }
  table.columns = {chart.kind == Chart::Kind::xy ? chart.x.label : std::string()};
  std::map<double, std::vector<std::string>> by_x;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    table.columns.push_back(chart.series[i].name);
    for (const ChartPoint& point : chart.series[i].points) {
      auto& cells = by_x[point.x];
      cells.resize(chart.series.size());
      cells[i] = point.text;
    }
  }
  for (const auto& [x, cells] : by_x) {
    const bool is_category = chart.kind != Chart::Kind::xy;
    std::vector<std::string> row = {is_category ? chart.categories.at(static_cast<size_t>(x))
                                                : tick_or_number(chart.x, x)};
    for (const std::string& text : cells) row.push_back(without_head(text, row.front()));
    table.rows.push_back(std::move(row));
  }
  move_within_run(table);
  return table;
}

std::string failure_note(const std::string& name, const Record* record, std::string_view series) {
  if (!record || record->status == Status::ok || median_of(*record, series)) return {};
  if (!was_tried(*record)) return fmt::format(", {} would not fit (predicted)", name);
  return fmt::format(", {} {}", name, status_csv_word(record->status));
}

std::string_view level_name(Certainty::Level level) {
  constexpr EnumNames<Certainty::Level, Certainty::Level::counted> kNames(
      "decided", "partly decided", "undecided", "disturbed", "measured", "counted");
  return kNames[level];
}

ReportDocument make_report(const ReportInput& input) {
  const ReportContext context = report_context(input);
  ReportDocument document{.title = "Ridgeline report",
                          .subtitle = subtitle_of(context),
                          .figures = key_figures(context),
                          .summary = summary_sentences(context),
                          .sections = {},
                          .footer = footer_of(context)};
  limit_sentences(document.summary);
  std::vector<MakeSection> sections = {comparison_section};
  sections.insert(sections.end(), input.sections.begin(), input.sections.end());
  sections.insert(sections.end(), {trust_section, rows_section, machine_section, problems_section});
  std::set<std::string> explained;
  for (const MakeSection make : sections) {
    ReportSection section = make(context);
    if (section.empty()) continue;
    limit_sentences(section.sentences);
    for (ReportView& view : section.views)
      for (Chart& chart : view.charts) {
        hold_intervals(chart);
        show_coinciding(chart);
      }
    section.terms = new_terms(section, explained);
    document.sections.push_back(std::move(section));
  }
  return document;
}

}  // namespace ridgeline
