#include "report/page/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/sort_by.h"
#include "measure/statistics.h"
#include "report/page/sections.h"
#include "report/page/svg_picture.h"

namespace ridgeline {
namespace {

const char* kind_of_interval(const Record& record, const Statistics& statistics) {
  if (statistics.count < kMinIntervalSamples) return "extremes of few samples";
  return record.merged_runs > 0 ? "between runs" : "within-run";
}

void add_interval(ChartPoint& point, double low, double high) {
  if (!std::isfinite(low) || !std::isfinite(high)) return;
  point.low = std::min(low, high);
  point.high = std::max(low, high);
}

// Returns whether at least half of the points of `above` visibly coincide with points of `below`.
bool lies_on(const Chart& chart, const ChartSeries& above, const ChartSeries& below) {
  constexpr double kApart = 0.012;  // fraction of the plot's height
  size_t together = 0;
  for (const ChartPoint& point : above.points)
    together += std::ranges::any_of(below.points, [&](const ChartPoint& other) {
      return other.x == point.x &&
             std::abs(axis_position(chart.y, other.y) - axis_position(chart.y, point.y)) < kApart;
    });
  return together >= 2 && 2 * together >= above.points.size();
}

}  // namespace

std::optional<ChartPoint> timed_point(double x, const Record& record, std::string_view phase,
                                      Quantity quantity, const std::function<double(double)>& of) {
  const auto median = median_of(record, phase);
  if (!median || !(*median > 0)) return std::nullopt;
  const auto figure = [&](double ms) { return of ? of(ms) : ms; };
  const Statistics& statistics = record.find_series(phase)->statistics;
  ChartPoint point{.x = x, .y = figure(*median)};
  if (!std::isfinite(point.y) || !(point.y > 0)) return std::nullopt;
  point.text = quantity_text(quantity, point.y);
  if (statistics.count > 1)
    add_interval(point, figure(statistics.median_low_ms), figure(statistics.median_high_ms));
  if (!(point.low > 0)) point.low = point.high = ChartPoint::kNone;
  point.value = point.text;
  if (point.has_interval())
    point.text +=
        fmt::format(" ({} to {} {})", quantity_text(quantity, point.low),
                    quantity_text(quantity, point.high), kind_of_interval(record, statistics));
  return point;
}

std::optional<ChartPoint> speedup_point(double x, const Record& base, const Record& next,
                                        std::string_view phase) {
  const auto before = timed_point(x, base, phase), after = timed_point(x, next, phase);
  if (!before || !after) return std::nullopt;
  ChartPoint point = counted_point(x, before->y / after->y, Quantity::ratio);
  if (before->has_interval() && after->has_interval()) {
    add_interval(point, before->low / after->high, before->high / after->low);
    point.text += fmt::format(" ({:.2f} to {:.2f})", point.low, point.high);
  }
  return point;
}

ChartPoint counted_point(double x, double value, Quantity quantity) {
  const std::string text = quantity_text(quantity, value);
  return {.x = x, .y = value, .text = text, .value = text};
}

ChartSeries* tensor_series(Chart& chart, const std::string& name, int colour, size_t most) {
  const auto found = std::ranges::find(chart.series, name, &ChartSeries::name);
  if (found != chart.series.end()) return &*found;
  if (chart.series.size() == most) return nullptr;
  return &chart.series.emplace_back(
      ChartSeries{.name = name, .colour = colour, .palette = ChartSeries::Palette::tensors});
}

void ImplementationLines::add(const ReportContext& context, const Record& record,
                              ChartPoint point) {
  ChartSeries& series = by_name[shown(record.implementation, 40)];
  series.colour = context.colour(record.implementation);
  series.implementation = shown(record.implementation, 60);
  xs.push_back(point.x);
  ys.push_back(point.y);
  series.points.push_back(std::move(point));
}

void ImplementationLines::move_to(Chart& chart) {
  for (auto& [name, series] : by_name) {
    if (chart.series.size() == kMostImplementations) break;
    series.name = name;
    sort_by(series.points, &ChartPoint::x);
    chart.series.push_back(std::move(series));
  }
}

void hold_intervals(Chart& chart) {
  constexpr double kRoom = 1.05;
  for (const ChartSeries& series : chart.series)
    for (const ChartPoint& point : series.points) {
      if (!point.has_interval()) continue;
      if (point.high > chart.y.max) chart.y.max = point.high * (chart.y.log ? kRoom : 1);
      if (chart.y.log && point.low > 0 && point.low < chart.y.min) chart.y.min = point.low / kRoom;
    }
}

void show_coinciding(Chart& chart) {
  if (chart.kind != Chart::Kind::xy) return;
  constexpr size_t kMostCompared = 300;  // points of a line: comparing is quadratic
  for (size_t i = 1; i < chart.series.size(); ++i) {
    ChartSeries& above = chart.series[i];
    if (above.mark != ChartSeries::Mark::line_and_points || above.points.size() > kMostCompared)
      continue;
    for (size_t j = 0; j < i; ++j) {
      const ChartSeries& below = chart.series[j];
      if (below.mark != ChartSeries::Mark::line_and_points || below.dashed ||
          below.points.size() > kMostCompared || !lies_on(chart, above, below))
        continue;
      above.dashed = true;
      chart.description += fmt::format(" {} lies on {}.", above.name, below.name);
      break;
    }
  }
}

}  // namespace ridgeline
