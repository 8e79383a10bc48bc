#include "studies/model/ladder_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "compile/ladder.h"
#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/sections.h"
#include "report/record_cells.h"

namespace ridgeline {
namespace {

using Figure = std::optional<double>;

// A figure that is compared from rung to rung.
struct LadderFigure {
  const char* id;
  const char* title;
  const char* label;
  Quantity quantity;
  Figure (*of)(const Record& record, const std::string& scenario);
};

constexpr LadderFigure kLadderFigures[] = {
    {"ladder-time", "Time", "median time", Quantity::milliseconds,
     [](const Record& record, const std::string& scenario) -> Figure {
       return median_of(record, scenario);
     }},
    {"ladder-launches", "Launches", "launches by the host", Quantity::count,
     [](const Record& record, const std::string& scenario) -> Figure {
       const Figure graphs = metric_of(record, scenario, "graph_launches");
       return graphs ? graphs : metric_of(record, scenario, "launches");
     }},
    {"ladder-memory", "Memory", "peak memory", Quantity::bytes,
     [](const Record& record, const std::string& scenario) -> Figure {
       return metric_of(record, scenario, "peak_bytes");
     }},
};

// Whether the row ran as a launch graph, which CPUs do not have.
bool has_launch_graph(const Record& record, const std::string& scenario) {
  return metric_of(record, scenario, "graph_launches").has_value();
}

// "flash attention": what a rung adds to the one below.
std::string step_words(const Record& before, const Record& after, const std::string& scenario) {
  const ModeInfo &low = info(parse_mode(before.implementation)),
                 &high = info(parse_mode(after.implementation));
  std::string text;
  const auto add = [&](bool had, bool has, const char* words) {
    if (has && !had) text += fmt::format("{}{}", text.empty() ? "" : " + ", words);
  };
  add(low.fuse, high.fuse, "fusion");
  add(low.flash, high.flash, "flash attention");
  add(low.launch_graph, has_launch_graph(after, scenario), "launch graph");
  return text;
}

std::string figure_text(Quantity quantity, double value) {
  return quantity == Quantity::count ? fmt::format("{:.0f}", value)
                                     : quantity_text(quantity, value);
}

// The change of a figure from one rung to the next.
ChartPoint step_point(const LadderFigure& figure, double at, const Record& before,
                      const Record& after, const std::string& scenario) {
  const double from = *figure.of(before, scenario), to = *figure.of(after, scenario);
  const std::string step = step_words(before, after, scenario);
  const std::string change = to == from
                                 ? std::string("0")
                                 : fmt::format("{}{}", to < from ? "-" : "+",
                                               figure_text(figure.quantity, std::abs(to - from)));
  ChartPoint point{
      .x = at,
      .y = to,
      .text = fmt::format("{} {}: from {} to {}", step, change, figure_text(figure.quantity, from),
                          figure_text(figure.quantity, to)),
      .from = from,
      .value = change};
  if (figure.quantity != Quantity::milliseconds) return point;
  const auto low = timed_point(at, before, scenario), high = timed_point(at, after, scenario);
  if (!low || !high || !low->has_interval() || !high->has_interval()) return point;
  // The interval that those of both medians allow.
  point.low = std::max(0.0, from + high->low - low->high);
  point.high = from + high->high - low->low;
  return point;
}

Chart waterfall(const ReportContext& context, const LadderFigure& figure,
                const std::vector<const Record*>& rungs, const std::string& scenario,
                const std::string& words) {
  Chart chart{
      .kind = Chart::Kind::waterfall,
      .id = figure.id,
      .title = fmt::format("{}: {}", figure.title, words),
      .description = fmt::format("{} of {} at the lowest and the highest rung, and between them "
                                 "what each step took away or added{}.",
                                 figure.title, words,
                                 figure.quantity == Quantity::milliseconds
                                     ? ", with the interval that those of both medians allow"
                                     : "")};
  ChartSeries totals{.name = "rung", .colour = -1}, less{.name = "saved", .colour = 2},
      more{.name = "added", .colour = 5}, unclear{.name = "undecided", .colour = -3};
  std::vector<double> values;
  const auto total = [&](const Record& record) {
    const auto at = static_cast<double>(chart.categories.size());
    const double value = *figure.of(record, scenario);
    chart.categories.push_back(record.implementation);
    ChartPoint point{.x = at, .y = value, .value = figure_text(figure.quantity, value)};
    point.text = fmt::format("{} {}", record.implementation, point.value);
    if (figure.quantity == Quantity::milliseconds)
      if (const auto timed = timed_point(at, record, scenario)) {
        point.low = timed->low;
        point.high = timed->high;
        point.text = fmt::format("{} {}", record.implementation, timed->text);
      }
    values.push_back(point.has_interval() ? point.high : value);
    totals.points.push_back(std::move(point));
  };
  for (const Record* rung : rungs)
    if (const Figure value = figure.of(*rung, scenario); !value || !(*value >= 0)) return {};
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (i > 0) {
      const auto at = static_cast<double>(chart.categories.size());
      ChartPoint point = step_point(figure, at, *rungs[i - 1], *rungs[i], scenario);
      const bool is_decided =
          figure.quantity != Quantity::milliseconds ||
          context.verdicts->between(*rungs[i - 1], *rungs[i], scenario).verdict != Verdict::unclear;
      chart.categories.push_back(step_words(*rungs[i - 1], *rungs[i], scenario));
      values.push_back(point.has_interval() ? point.high : point.y);
      (!is_decided             ? unclear
       : point.y <= point.from ? less
                               : more)
          .points.push_back(std::move(point));
    }
    if (i == 0 || i + 1 == rungs.size()) total(*rungs[i]);
  }
  for (ChartSeries* series : {&totals, &less, &more, &unclear})
    if (!series->points.empty()) chart.series.push_back(std::move(*series));
  chart.y = linear_axis(figure.label, figure.quantity, values, Better::lower);
  return chart;
}

}  // namespace

std::vector<const Record*> rungs_of(const std::vector<const Record*>& rows,
                                    const std::string& scenario) {
  std::vector<const Record*> rungs;
  for (const ModeInfo& mode : modes()) {
    const auto found = std::ranges::find(rows, mode.name, &Record::implementation);
    if (found == rows.end() || !median_of(**found, scenario)) continue;
    if (rungs.empty() || !step_words(*rungs.back(), **found, scenario).empty())
      rungs.push_back(*found);
  }
  return rungs;
}

std::vector<Chart> ladder_charts(const ReportContext& context,
                                 const std::vector<const Record*>& rungs,
                                 const std::string& scenario, const std::string& words) {
  if (rungs.size() < 2) return {};
  std::vector<Chart> charts;
  for (const LadderFigure& figure : kLadderFigures)
    if (Chart chart = waterfall(context, figure, rungs, scenario, words); !chart.series.empty())
      charts.push_back(std::move(chart));
  return charts;
}

std::string ladder_words(const ReportContext& context, const std::vector<const Record*>& rungs,
                         const std::string& scenario, const std::string& words) {
  if (rungs.size() < 2) return {};
  const Record &low = *rungs.front(), &high = *rungs.back();
  const auto verdict = [&](const Record& from, const Record& to) {
    return context.verdicts->between(from, to, scenario).verdict;
  };
  const auto ratio = [&](const Record& from, const Record& to) {
    return verdict(from, to) == Verdict::same
               ? "as fast"
               : times_as_fast(*median_of(from, scenario) / *median_of(to, scenario));
  };
  std::string text = fmt::format(
      "{} takes {} for a {} where {} takes {}, {}", high.implementation,
      quantity_text(Quantity::milliseconds, *median_of(high, scenario)), words, low.implementation,
      quantity_text(Quantity::milliseconds, *median_of(low, scenario)), ratio(low, high));
  // With several steps, the sentence names the effect of each.
  for (size_t i = 1; rungs.size() > 2 && i < rungs.size(); ++i) {
    const Record &from = *rungs[i - 1], &to = *rungs[i];
    text += fmt::format("{}{} {}{}", i == 1 ? "; step by step, " : ", then ",
                        step_words(from, to, scenario), ratio(from, to),
                        verdict(from, to) == Verdict::unclear ? " (undecided)" : "");
  }
  std::vector<std::string> falls;
  const Figure many = kLadderFigures[1].of(low, scenario),
               few = kLadderFigures[1].of(high, scenario);
  if (many && few) falls.push_back(fmt::format("launches go from {:.0f} to {:.0f}", *many, *few));
  const Figure much = metric_of(low, scenario, "peak_bytes"),
               little = metric_of(high, scenario, "peak_bytes");
  if (much && little && *much > 0)
    falls.push_back(
        fmt::format("memory {} {:.0f} %", falls.empty() ? "goes to" : "to", 100 * *little / *much));
  if (falls.empty()) return text;
  std::string rest = listed(falls);
  rest[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(rest[0])));
  return fmt::format("{}. {}", text, rest);
}

}  // namespace ridgeline
