#include "report/page/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/page/html_escape.h"
#include "report/page/palette.h"

namespace ridgeline {
namespace {

constexpr double kWidth = 720;
constexpr double kRight = 24;
constexpr double kBottom = 54;
constexpr double kAxisTitle = 26;   // the width of one that is turned
constexpr double kCharacter = 6.4;  // the width of a character of 12 pixels, on average

constexpr std::string_view kAreaOpacity = "fill-opacity=\"0.3\"";

double text_width(const std::string& text) {
  return kCharacter * static_cast<double>(text.size());
}

// A picture under construction: elements in the order in which they are painted.
class Picture {
 public:
  void line(double x1, double y1, double x2, double y2, std::string_view colour, double width = 1,
            std::string_view extra = "") {
    body_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"{}\" {}/>\n",
        x1, y1, x2, y2, colour, width, extra);
  }
  void text(double x, double y, const std::string& text, std::string_view anchor,
            std::string_view extra = "") {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                         anchor, extra, html_escape(text));
  }
  void rectangle(double x, double y, double width, double height, std::string_view colour,
                 std::string_view extra = "") {
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" {}/>\n", x,
        y, std::max(width, 0.0), height, colour, extra);
  }
  void mark(double x, double y, ChartSeries::Mark mark, std::string_view colour) {
    using enum ChartSeries::Mark;
    if (mark == line || mark == steps) return;
    if (mark == area) {
      rectangle(x - 6, y - 5, 12, 10, colour, kAreaOpacity);
      return;
    }
    if (mark == crosses) {
      this->line(x - 4.5, y - 4.5, x + 4.5, y + 4.5, colour, 2);
      this->line(x - 4.5, y + 4.5, x + 4.5, y - 4.5, colour, 2);
      return;
    }
    body_ += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.6\" fill=\"{}\" stroke=\"{}\" "
        "stroke-width=\"1.5\"/>\n",
        x, y, mark == rings ? "#ffffff" : colour, colour);
  }
  void polygon(const std::string& points, std::string_view colour) {
    body_ += fmt::format("<polygon points=\"{}\" fill=\"{}\" {}/>\n", points, colour, kAreaOpacity);
  }
  void polyline(const std::string& points, std::string_view colour) {
    body_ += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
        "stroke-linejoin=\"round\"/>\n",
        points, colour);
  }

  std::string finish(const Chart& chart, double height) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" role=\"img\" aria-label=\"{2}\" font-family=\"system-ui, 'Segoe UI', "
        "Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#374151\">\n"
        "<title>{2}</title>\n<desc>{3}</desc>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{4}</svg>\n",
        kWidth, height, html_escape(chart.title), html_escape(chart.description), body_);
  }

 private:
  std::string body_;
};

bool has_line(ChartSeries::Mark mark) {
  using enum ChartSeries::Mark;
  return mark == line || mark == line_and_points || mark == steps;
}

// 0 at the beginning of the axis, 1 at its end.
double position(const Axis& axis, double value) {
  const double at = axis.log ? std::log(value / axis.min) / std::log(axis.max / axis.min)
                             : (value - axis.min) / (axis.max - axis.min);
  return std::isfinite(at) ? std::clamp(at, 0.0, 1.0) : 0;
}

// Title, caption and legend; returns where the plot may begin.
double head(Picture& picture, const Chart& chart, const std::string& caption) {
  picture.text(16, 24, chart.title, "start",
               "font-size=\"15\" font-weight=\"600\" fill=\"#111827\"");
  double y = 42;
  if (!caption.empty()) {
    picture.text(16, y, caption, "start", "fill=\"#6b7280\"");
    y += 18;
  }
  double x = 16;
  for (const ChartSeries& series : chart.series) {
    const double width = text_width(series.name) + 34;
    if (x > 16 && x + width > kWidth - kRight) {
      x = 16;
      y += 18;
    }
    const std::string_view colour = series_colour(series.colour).light;
    if (chart.kind != Chart::Kind::xy) {
      picture.rectangle(x, y - 9, 12, 10, colour);
    } else {
      if (has_line(series.mark)) picture.line(x - 2, y - 4, x + 14, y - 4, colour, 2);
      picture.mark(x + 6, y - 4, series.mark, colour);
    }
    picture.text(x + 19, y, series.name, "start");
    x += width;
  }
  return y + 16;
}

constexpr std::string_view kGrid = "#e5e7eb";

std::string xy_svg(const Chart& chart, const std::string& caption) {
  Picture picture;
  const double top = head(picture, chart, caption), plot_height = 300;
  double left = 92;
  for (const Tick& tick : chart.y.ticks)  // and the title of the axis to the left of it
    left = std::max(left, kAxisTitle + text_width(tick.text) + 8);
  const double right = kWidth - kRight, bottom = top + plot_height;
  const auto to_x = [&](double x) { return left + position(chart.x, x) * (right - left); };
  const auto to_y = [&](double y) { return bottom - position(chart.y, y) * plot_height; };
  for (const Tick& tick : chart.y.ticks) {
    picture.line(left, to_y(tick.value), right, to_y(tick.value), kGrid);
    picture.text(left - 8, to_y(tick.value) + 4, tick.text, "end");
  }
  for (const Tick& tick : chart.x.ticks) {
    picture.line(to_x(tick.value), top, to_x(tick.value), bottom, kGrid);
    picture.text(to_x(tick.value), bottom + 18, tick.text, "middle");
  }
  picture.line(left, bottom, right, bottom, "#9ca3af");
  picture.text((left + right) / 2, bottom + 40, chart.x.label, "middle");
  picture.text(0, 0, chart.y.label, "middle",
               fmt::format("transform=\"translate(16 {:.1f}) rotate(-90)\"", (top + bottom) / 2));
  for (const ChartSeries& series : chart.series) {
    const std::string_view colour = series_colour(series.colour).light;
    const bool is_area = series.mark == ChartSeries::Mark::area;
    const bool is_stepped = is_area || series.mark == ChartSeries::Mark::steps;
    std::string points;
    for (size_t i = 0; i < series.points.size(); ++i) {
      const ChartPoint& point = series.points[i];
      if (is_stepped && i > 0)
        points += fmt::format("{:.1f},{:.1f} ", to_x(point.x), to_y(series.points[i - 1].y));
      points += fmt::format("{:.1f},{:.1f} ", to_x(point.x), to_y(point.y));
    }
    if (is_area && !series.points.empty())
      picture.polygon(fmt::format("{:.1f},{:.1f} {}{:.1f},{:.1f}", to_x(series.points.front().x),
                                  bottom, points, to_x(series.points.back().x), bottom),
                      colour);
    if (has_line(series.mark)) picture.polyline(points, colour);
    if (is_stepped) continue;
    for (const ChartPoint& point : series.points)
      picture.mark(to_x(point.x), to_y(point.y), series.mark, colour);
  }
  return picture.finish(chart, bottom + kBottom);
}

std::string bars_svg(const Chart& chart, const std::string& caption) {
  constexpr double kBar = 15, kGap = 12;
  const bool stacked = chart.kind == Chart::Kind::stacked_bars;
  Picture picture;
  const double top = head(picture, chart, caption);
  double left = 40;
  for (const std::string& category : chart.categories)
    left = std::max(left, text_width(category) + 24);
  left = std::min(left, kWidth / 2);
  const double right = kWidth - kRight - 64;  // room for the value at the end of the longest bar
  const double per_category =
      (stacked ? 1.6 : static_cast<double>(chart.series.size())) * kBar + kGap;
  const double bottom = top + per_category * static_cast<double>(chart.categories.size());
  const auto to_x = [&](double value) { return left + position(chart.y, value) * (right - left); };
  for (const Tick& tick : chart.y.ticks) {
    if (tick.value < chart.y.min) continue;
    picture.line(to_x(tick.value), top, to_x(tick.value), bottom, kGrid);
    picture.text(to_x(tick.value), bottom + 18, tick.text, "middle");
  }
  for (size_t i = 0; i < chart.categories.size(); ++i)
    picture.text(left - 8, top + per_category * (static_cast<double>(i) + 0.5) + 4,
                 chart.categories[i], "end");
  std::vector<double> ends(chart.categories.size(), 0);  // of stacked bars so far
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const ChartSeries& series = chart.series[s];
    const std::string_view colour = series_colour(series.colour).light;
    for (const ChartPoint& point : series.points) {
      const auto category = static_cast<size_t>(point.x);
      const double row = top + per_category * point.x + kGap / 2;
      if (stacked) {
        double& end = ends.at(category);
        picture.rectangle(to_x(end), row, to_x(end + point.y) - to_x(end), 1.6 * kBar, colour);
        end += point.y;
      } else {
        const double y = row + kBar * static_cast<double>(s);
        picture.rectangle(left, y, to_x(point.y) - left, kBar - 2, colour);
        picture.text(to_x(point.y) + 5, y + kBar - 4, point.text, "start", "font-size=\"11\"");
      }
    }
  }
  if (chart.reference)
    picture.line(to_x(*chart.reference), top, to_x(*chart.reference), bottom, "#111827", 1,
                 "stroke-dasharray=\"4 3\"");
  picture.line(left, top, left, bottom, "#9ca3af");
  picture.text((left + right) / 2, bottom + 40, chart.y.label, "middle");
  return picture.finish(chart, bottom + kBottom);
}

}  // namespace

std::string to_svg(const Chart& chart, const std::string& caption) {
  return chart.kind == Chart::Kind::xy ? xy_svg(chart, caption) : bars_svg(chart, caption);
}

}  // namespace ridgeline
