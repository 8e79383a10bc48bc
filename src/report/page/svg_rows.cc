#include "report/page/svg_rows.h"

#include <algorithm>
#include <cmath>

namespace ridgeline {
namespace {

constexpr double kLine = 15, kGap = 12, kThick = 22;  // bar among others, gap, single bar

constexpr double kNameLine = 14;
constexpr size_t kMostNameLines = 3;

// Names are left of their rows, on a phone above them.
struct RowLayout {
  const Chart& chart;
  double left = 0, right = 0, top = 0, name_height = 0, row_height = 0;
  std::vector<std::vector<std::string>> names = {};  // of the categories, line by line
  bool is_shared = false;  // no category has points of two series, so that all share one line

  double row(double category) const {
    return top + category * (name_height + row_height + kGap) + name_height + kGap / 2;
  }
  double bottom() const { return row(static_cast<double>(chart.categories.size())) - name_height; }
  double along(double value) const { return left + axis_position(chart.y, value) * (right - left); }
};

bool has_line_per_series(const Chart& chart) {
  return chart.kind == Chart::Kind::bars || chart.kind == Chart::Kind::dots;
}

RowLayout layout_of(const Chart& chart, const SvgFrame& frame, double top) {
  RowLayout layout{.chart = chart, .top = top};
  double longest = 0, values = 0;
  for (const std::string& category : chart.categories)
    longest = std::max(longest, svg_text_width(category));
  std::vector<int> series_of_row(chart.categories.size(), 0);
  if (has_line_per_series(chart))
    for (const ChartSeries& series : chart.series)
      for (const ChartPoint& point : series.points)
        ++series_of_row.at(static_cast<size_t>(point.x));
  layout.is_shared = std::ranges::all_of(series_of_row, [](int count) { return count <= 1; });
  if (has_line_per_series(chart) || chart.kind == Chart::Kind::waterfall)
    for (const ChartSeries& series : chart.series)
      for (const ChartPoint& point : series.points)
        values = std::max(values, svg_text_width(point.value.empty() ? point.text : point.value));
  layout.left = frame.is_narrow() ? 12 : std::min(longest + 14, frame.width * 0.42);
  size_t most_lines = 1;
  for (const std::string& category : chart.categories) {
    layout.names.push_back(
        wrapped_text(category, frame.is_narrow() ? frame.width : layout.left - 8, kMostNameLines));
    most_lines = std::max(most_lines, layout.names.back().size());
  }
  const double names_height = kNameLine * static_cast<double>(most_lines) + 2;
  layout.name_height = frame.is_narrow() ? names_height : 0;
  // Room for the value at the end of the longest bar.
  const double last = chart.y.ticks.empty() ? 0 : svg_text_width(chart.y.ticks.back().text) / 2;
  layout.right = frame.width - 14 - std::max(last, std::min(values * 11 / 12, frame.width * 0.3));
  layout.row_height = !has_line_per_series(chart) ? kThick
                      : layout.is_shared          ? kLine
                                         : kLine * static_cast<double>(chart.series.size());
  if (!frame.is_narrow()) layout.row_height = std::max(layout.row_height, names_height - kGap);
  return layout;
}

void draw_frame(SvgPicture& picture, const RowLayout& layout) {
  const Chart& chart = layout.chart;
  const double bottom = layout.bottom();
  for (const Tick* tick : ticks_with_room(chart.y, layout.right - layout.left)) {
    picture.grid(layout.along(tick->value), layout.top, layout.along(tick->value), bottom);
    picture.text(layout.along(tick->value), bottom + 18, tick->text, "middle");
  }
  if (chart.reference)
    picture.rule(layout.along(*chart.reference), layout.top, layout.along(*chart.reference), bottom,
                 /*is_dashed=*/true);
  // A continuous axis would cross names that are above their rows.
  if (layout.name_height == 0) picture.rule(layout.left, layout.top, layout.left, bottom);
  for (size_t i = 0; layout.name_height > 0 && i < chart.categories.size(); ++i) {
    const double row = layout.row(static_cast<double>(i));
    picture.rule(layout.left, row - 1, layout.left, row + layout.row_height + 1);
  }
  // Names above their rows cross grid lines.
  constexpr const char* kHalo =
      "class=\"row-name\" paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"3\"";
  for (size_t i = 0; i < chart.categories.size(); ++i) {
    const double row = layout.row(static_cast<double>(i));
    const std::vector<std::string>& lines = layout.names[i];
    const double height = kNameLine * static_cast<double>(lines.size() - 1);
    double y =
        layout.name_height > 0 ? row - 5 - height : row + layout.row_height / 2 + 4 - height / 2;
    for (const std::string& line : lines) {
      if (layout.name_height > 0)
        picture.text(0, y, line, "start", kHalo);
      else
        picture.text(layout.left - 8, y, line, "end");
      y += kNameLine;
    }
  }
}

// Writes the short value, if there is one: the text of a bar may be a sentence.
void draw_value(SvgPicture& picture, double x, double y, const ChartPoint& point) {
  picture.text(x + 6, y, point.value.empty() ? point.text : point.value, "start",
               "font-size=\"11\"");
}

// Draws the points of every series: a dot or a bar, its interval and its value.
void draw_points(SvgPicture& picture, const RowLayout& layout) {
  const Chart& chart = layout.chart;
  const bool has_lines = has_line_per_series(chart), is_dots = chart.kind == Chart::Kind::dots,
             is_stacked = chart.kind == Chart::Kind::stacked_bars,
             has_values = has_lines || chart.kind == Chart::Kind::waterfall;
  std::vector<double> ends(chart.categories.size(), 0);  // of the stacks
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const ChartSeries& series = chart.series[s];
    picture.begin(series);
    for (const ChartPoint& point : series.points) {
      double top = layout.row(point.x), middle = top + kThick / 2;
      if (has_lines) {
        top += layout.is_shared ? (layout.row_height - kLine) / 2 : kLine * static_cast<double>(s);
        middle = top + kLine / 2 - 1;
      }
      double& stack = ends.at(static_cast<size_t>(point.x));
      const double from = has_lines ? layout.left : layout.along(is_stacked ? stack : point.from),
                   to = layout.along(is_stacked ? stack + point.y : point.y);
      stack += point.y;
      if (is_dots) {
        picture.mark(to, middle, series, &point);
      } else {
        picture.bar(std::min(from, to), top, std::abs(to - from) - (is_stacked ? 1 : 0),
                    has_lines ? kLine - 3 : kThick, &point);
      }
      double end = std::max(from, to) + (is_dots ? 4 : 0);
      if (point.has_interval()) {
        picture.whisker_along(layout.along(point.low), layout.along(point.high), middle);
        end = std::max(end, layout.along(point.high));
      }
      if (has_values) draw_value(picture, end, middle + 4, point);
    }
    picture.end();
  }
}

}  // namespace

std::string rows_svg(const Chart& chart, const SvgFrame& frame, const std::string& caption) {
  SvgPicture picture(frame);
  const RowLayout layout = layout_of(chart, frame, picture.head(chart, caption));
  draw_frame(picture, layout);
  draw_points(picture, layout);
  const double bottom = layout.bottom();
  picture.title_of_axis(layout.left, layout.right, bottom + 40, chart.y);
  return picture.finish(chart, bottom + 58);
}

}  // namespace ridgeline
