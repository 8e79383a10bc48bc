#include "studies/model/ladder_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compile/ladder.h"
#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/sections.h"
#include "report/record_cells.h"

namespace ridgeline {
namespace {

using Figure = std::optional<double>;

// What is compared from rung to rung.
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
    {"ladder-launches", "Launches", "launches in a step", Quantity::count,
     [](const Record& record, const std::string& scenario) -> Figure {
       return metric_of(record, scenario, "launches");
     }},
    {"ladder-memory", "Memory", "peak memory", Quantity::bytes,
     [](const Record& record, const std::string& scenario) -> Figure {
       return metric_of(record, scenario, "peak_bytes");
     }},
};

// From the lowest rung on, those that were measured.
std::vector<const Record*> rungs_of(const std::vector<const Record*>& rows,
                                    const std::string& scenario) {
  std::vector<const Record*> rungs;
  for (const ModeInfo& mode : modes()) {
    const auto found = std::ranges::find(rows, mode.name, &Record::implementation);
    if (found != rows.end() && median_of(**found, scenario)) rungs.push_back(*found);
  }
  return rungs;
}

// "flash attention": what stands between two rungs.
std::string step_words(const Record& before, const Record& after) {
  const ModeInfo &low = info(parse_mode(before.implementation)),
                 &high = info(parse_mode(after.implementation));
  std::string text;
  const auto add = [&](bool had, bool has, const char* words) {
    if (has && !had) text += fmt::format("{}{}", text.empty() ? "" : " + ", words);
  };
  add(low.fuse, high.fuse, "fusion");
  add(low.flash, high.flash, "flash attention");
  add(low.launch_graph, high.launch_graph, "launch graph");
  return text;
}

std::string figure_text(Quantity quantity, double value) {
  return quantity == Quantity::count ? fmt::format("{:.0f}", value)
                                     : quantity_text(quantity, value);
}

Chart waterfall(const LadderFigure& figure, const std::vector<const Record*>& rungs,
                const std::string& scenario, const std::string& words) {
  Chart chart{.kind = Chart::Kind::waterfall,
              .id = figure.id,
              .title = fmt::format("{}: {}", figure.title, words),
              .description = fmt::format("{} of {} at the lowest and the highest rung, and between "
                                         "them what each step took away or added.",
                                         figure.title, words)};
  ChartSeries totals{.name = "rung", .colour = -1}, less{.name = "saved", .colour = 2},
      more{.name = "added", .colour = 5};
  std::vector<double> values;
  const auto total = [&](const Record& record, double value) {
    const auto at = static_cast<double>(chart.categories.size());
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
  for (size_t i = 0; i < rungs.size(); ++i) {
    const Figure now = figure.of(*rungs[i], scenario);
    if (!now || !(*now >= 0)) return {};
    if (i == 0) {
      total(*rungs[i], *now);
      continue;
    }
    const double before = *figure.of(*rungs[i - 1], scenario);
    const auto at = static_cast<double>(chart.categories.size());
    const std::string step = step_words(*rungs[i - 1], *rungs[i]);
    chart.categories.push_back(step);
    const std::string change =
        *now == before ? std::string("0")
                       : fmt::format("{}{}", *now < before ? "-" : "+",
                                     figure_text(figure.quantity, std::abs(*now - before)));
    (*now <= before ? less : more)
        .points.push_back({.x = at,
                           .y = *now,
                           .text = fmt::format("{} {}: from {} to {}", step, change,
                                               figure_text(figure.quantity, before),
                                               figure_text(figure.quantity, *now)),
                           .from = before,
                           .value = change});
    if (i + 1 == rungs.size()) total(*rungs[i], *now);
  }
  for (ChartSeries* series : {&totals, &less, &more})
    if (!series->points.empty()) chart.series.push_back(std::move(*series));
  chart.y = linear_axis(figure.label, figure.quantity, values, Better::lower);
  return chart;
}

}  // namespace

std::vector<Chart> ladder_charts(const std::vector<const Record*>& rows,
                                 const std::string& scenario, const std::string& words) {
  const std::vector<const Record*> rungs = rungs_of(rows, scenario);
  if (rungs.size() < 2) return {};
  std::vector<Chart> charts;
  for (const LadderFigure& figure : kLadderFigures)
    if (Chart chart = waterfall(figure, rungs, scenario, words); !chart.series.empty())
      charts.push_back(std::move(chart));
  return charts;
}

std::pair<const Record*, const Record*> ends_of_ladder(const std::vector<const Record*>& rows,
                                                       const std::string& scenario) {
  const std::vector<const Record*> rungs = rungs_of(rows, scenario);
  if (rungs.size() < 2) return {};
  return {rungs.front(), rungs.back()};
}

std::string ladder_words(const std::vector<const Record*>& rows, const std::string& scenario,
                         const std::string& words) {
  const auto [low, high] = ends_of_ladder(rows, scenario);
  if (!low) return {};
  const double before = *median_of(*low, scenario), after = *median_of(*high, scenario);
  std::string text =
      fmt::format("{} takes {} for a {} where {} takes {}, {}", high->implementation,
                  quantity_text(Quantity::milliseconds, after), words, low->implementation,
                  quantity_text(Quantity::milliseconds, before), times_as_fast(before / after));
  const Figure many = metric_of(*low, scenario, "launches"),
               few = metric_of(*high, scenario, "launches");
  if (many && few) text += fmt::format(", with {:.0f} launches instead of {:.0f}", *few, *many);
  const Figure much = metric_of(*low, scenario, "peak_bytes"),
               little = metric_of(*high, scenario, "peak_bytes");
  if (much && little && *much > 0)
    text += fmt::format(" and {:.0f} % of the memory", 100 * *little / *much);
  return text;
}

}  // namespace ridgeline
