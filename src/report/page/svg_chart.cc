#include "report/page/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/sort_by.h"
#include "report/page/svg_picture.h"
#include "report/page/svg_rows.h"

namespace ridgeline {
namespace {

constexpr double kPlotHeight = 300, kTallPlotHeight = 400, kBelow = 58;
constexpr double kRegionName = 18;  // height of the strip with names of regions, above the plot
constexpr size_t kMostMarks = 150;  // of one line; longer ones mark only some points

// Returns whether the series consists of single points, which labels must not hide.
bool has_marks(const ChartSeries& series) {
  using enum ChartSeries::Mark;
  return series.mark == points || series.mark == rings || series.mark == crosses;
}

// Maps values to coordinates of the plot.
struct Plot {
  const Chart& chart;
  double left, right, top, bottom;

  double x(double value) const { return left + axis_position(chart.x, value) * (right - left); }
  double y(double value) const { return bottom - axis_position(chart.y, value) * (bottom - top); }
};

void draw_axes(SvgPicture& picture, const Plot& plot) {
  const Chart& chart = plot.chart;
  for (size_t i = 0; i < chart.regions.size(); ++i) {
    const ChartRegion& region = chart.regions[i];
    const double from = plot.x(region.from), to = plot.x(region.to);
    // Only the first and the last region are shaded.
    if (i == 0 || i + 1 == chart.regions.size())
      picture.region(from, plot.top - kRegionName, to - from, plot.bottom - plot.top + kRegionName,
                     i == 0);
    if (to - from > svg_text_width(region.text) + 8)
      picture.text((from + to) / 2, plot.top - 5, region.text, "middle", "class=\"region-name\"");
  }
  for (const Tick& tick : chart.y.ticks) {
    picture.grid(plot.left, plot.y(tick.value), plot.right, plot.y(tick.value));
    picture.text(plot.left - 8, plot.y(tick.value) + 4, tick.text, "end");
  }
  for (const Tick* tick : ticks_with_room(chart.x, plot.right - plot.left)) {
    picture.grid(plot.x(tick->value), plot.top, plot.x(tick->value), plot.bottom);
    picture.text(plot.x(tick->value), plot.bottom + 18, tick->text, "middle");
  }
  picture.rule(plot.left, plot.bottom, plot.right, plot.bottom);
  picture.title_of_axis(plot.left, plot.right, plot.bottom + 40, chart.x);
}

// The vertices of a line; a stepped one holds its level until the next point.
std::string corners(const Plot& plot, const ChartSeries& series, bool is_stepped) {
  std::string points;
  for (size_t i = 0; i < series.points.size(); ++i) {
    const ChartPoint& point = series.points[i];
    if (is_stepped && i > 0)
      points += fmt::format("{:.1f},{:.1f} ", plot.x(point.x), plot.y(series.points[i - 1].y));
    points += fmt::format("{:.1f},{:.1f} ", plot.x(point.x), plot.y(point.y));
  }
  return points;
}

// The intervals of a line with very many points, as one polygon.
std::string band(const Plot& plot, const ChartSeries& series) {
  std::string above, below;
  for (const ChartPoint& point : series.points) {
    if (!point.has_interval()) continue;
    above += fmt::format("{:.1f},{:.1f} ", plot.x(point.x), plot.y(point.high));
    below.insert(0, fmt::format("{:.1f},{:.1f} ", plot.x(point.x), plot.y(point.low)));
  }
  return above + below;
}

void draw_series(SvgPicture& picture, const Plot& plot, const ChartSeries& series) {
  const bool is_area = series.mark == ChartSeries::Mark::area;
  const bool is_stepped = is_area || series.mark == ChartSeries::Mark::steps;
  if (series.points.empty()) return;
  picture.begin(series);
  const std::string points = corners(plot, series, is_stepped);
  if (is_area)
    picture.area(fmt::format("{:.1f},{:.1f} {}{:.1f},{:.1f}", plot.x(series.points.front().x),
                             plot.bottom, points, plot.x(series.points.back().x), plot.bottom),
                 /*is_interval=*/false);
  const bool is_dense = has_line(series.mark) && series.points.size() > kMostMarks;
  if (is_dense && !is_stepped)
    if (const std::string intervals = band(plot, series); !intervals.empty())
      picture.area(intervals, /*is_interval=*/true);
  if (has_line(series.mark))
    picture.polyline(points, series.dashed || series.mark == ChartSeries::Mark::line);
  const size_t stride = is_dense ? (series.points.size() + kMostMarks - 1) / kMostMarks : 1;
  if (!is_stepped)
    for (size_t i = 0; i < series.points.size(); i += stride) {
      const ChartPoint& point = series.points[i];
      if (point.has_interval() && !is_dense)
        picture.whisker_up(plot.x(point.x), plot.y(point.low), plot.y(point.high));
      picture.mark(plot.x(point.x), plot.y(point.y), series, &point);
    }
  picture.end();
}

// Returns the labelled points. A timeline labels every large tensor for readers who zoom; its
// picture shows a few labels, each at its highest point.
std::vector<std::pair<const ChartSeries*, const ChartPoint*>> named_points(const Chart& chart) {
  constexpr size_t kMostOfATimeline = 8;
  std::vector<std::pair<const ChartSeries*, const ChartPoint*>> named;
  for (const ChartSeries& series : chart.series)
    for (const ChartPoint& point : series.points)
      if (!point.label.empty()) named.emplace_back(&series, &point);
  if (!chart.zooms) return named;
  sort_by_falling(named, [](const auto& each) { return each.second->y; });
  std::set<std::string_view> known;
  std::erase_if(named, [&](const auto& each) { return !known.insert(each.second->label).second; });
  if (named.size() > kMostOfATimeline) named.resize(kMostOfATimeline);
  return named;
}

std::string xy_svg(const Chart& chart, const SvgFrame& frame, const std::string& caption) {
  SvgPicture picture(frame);
  double top = picture.head(chart, caption);
  picture.text(frame.is_figure ? 16 : 0, top - 2, axis_title(chart.y));
  top += chart.regions.empty() ? 12 : 12 + kRegionName;
  double left = 30;
  for (const Tick& tick : chart.y.ticks) left = std::max(left, svg_text_width(tick.text) + 20);
  const double last = chart.x.ticks.empty() ? 0 : svg_text_width(chart.x.ticks.back().text);
  const Plot plot{.chart = chart,
                  .left = left,
                  .right = frame.width - std::max(frame.is_narrow() ? 12.0 : 24.0, last / 2 + 4),
                  .top = top,
                  .bottom = top + (chart.is_tall ? kTallPlotHeight : kPlotHeight)};
  draw_axes(picture, plot);
  for (const ChartSeries& series : chart.series) draw_series(picture, plot, series);
  for (const ChartSeries& series : chart.series)
    if (!series.hidden && (has_marks(series) || chart.zooms))
      for (const ChartPoint& point : series.points)
        picture.keep_clear(plot.x(point.x), plot.y(point.y));
  const SvgBox within{plot.left + 2, plot.top, plot.right, plot.bottom};
  const auto is_line = [](const ChartSeries& series) {
    return series.mark == ChartSeries::Mark::line;
  };
  const auto segment = [&](const ChartSeries& series, size_t end) {
    const ChartPoint &from = series.points[end - 1], &to = series.points[end];
    return SvgBox{plot.x(from.x), plot.y(from.y), plot.x(to.x), plot.y(to.y)};
  };
  for (const ChartSeries& series : chart.series)
    for (size_t end = 1; is_line(series) && !series.hidden && end < series.points.size(); ++end) {
      const SvgBox line = segment(series, end);
      picture.keep_clear_along(line.x1, line.y1, line.x2, line.y2);
    }
  for (const auto& [series, point] : named_points(chart)) {
    if (!is_line(*series) || series->points.size() < 2) continue;
    const bool is_last = point == &series->points.back();
    picture.begin(*series);
    picture.label_along(segment(*series, is_last ? series->points.size() - 1 : 1), point->label,
                        is_last, within);
    picture.end();
  }
  for (const auto& [series, point] : named_points(chart)) {
    if (is_line(*series) && series->points.size() > 1) continue;
    picture.begin(*series);
    picture.label(plot.x(point->x), plot.y(point->y), point->label, within);
    picture.end();
  }
  return picture.finish(chart, plot.bottom + kBelow);
}

std::string drawn(const Chart& chart, const SvgFrame& frame, const std::string& caption) {
  return chart.has_categories() ? rows_svg(chart, frame, caption) : xy_svg(chart, frame, caption);
}

}  // namespace

std::string to_svg(const Chart& chart, const std::string& caption) {
  return drawn(chart, {}, caption);
}

std::string to_page_svg(const Chart& chart, double width) {
  return drawn(chart, {.width = width, .is_figure = false}, {});
}

}  // namespace ridgeline
