#include "report/page/svg_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "base/enum_names.h"
#include "report/page/html_escape.h"
#include "report/page/palette.h"

namespace ridgeline {
namespace {

constexpr double kCharacter = 6.4;  // mean width of a character at a font size of 12 pixels
constexpr double kEdge = 16, kLegendLine = 18;

// The attributes of a mark with a tooltip. The wide picture holds the texts of the narrow one, too.
std::string hover(const ChartPoint* point, const SvgFrame& frame) {
  if (point == nullptr || point->text.empty() || frame.is_figure) return {};
  return frame.is_narrow() ? " class=\"p\""
                           : fmt::format(" class=\"p\" data-text=\"{}\"", html_escape(point->text));
}

// Not std::hypot, for which programs built with glibc 2.35 need that version.
double length_of(const SvgBox& line) {
  const double width = line.x2 - line.x1, height = line.y2 - line.y1;
  return std::sqrt(width * width + height * height);
}

}  // namespace

double svg_text_width(std::string_view text) {
  return kCharacter * static_cast<double>(text.size());
}

std::vector<std::string> wrapped_text(const std::string& text, double room, size_t most) {
  const auto fits = static_cast<size_t>(std::max(8.0, room / kCharacter));
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    if (text.size() - at <= fits) {
      lines.push_back(text.substr(at));
      break;
    }
    if (lines.size() + 1 == most) {
      lines.push_back(text.substr(at, fits - 3) + "...");
      break;
    }
    const size_t space = text.rfind(' ', at + fits);
    const size_t end = space == std::string::npos || space <= at ? at + fits : space;
    lines.push_back(text.substr(at, end - at));
    at = end + (text[end] == ' ' ? 1 : 0);
  }
  if (lines.empty()) lines.emplace_back();
  return lines;
}

double axis_position(const Axis& axis, double value) {
  const double at = axis.log ? std::log(value / axis.min) / std::log(axis.max / axis.min)
                             : (value - axis.min) / (axis.max - axis.min);
  return std::isfinite(at) ? std::clamp(at, 0.0, 1.0) : 0;
}

std::string axis_title(const Axis& axis) {
  constexpr EnumNames<Better, Better::higher> kHints("", " (lower is better)",
                                                     " (higher is better)");
  return axis.label + std::string(kHints[axis.better]);
}

std::vector<const Tick*> ticks_with_room(const Axis& axis, double length) {
  constexpr double kApart = 10;
  std::vector<const Tick*> shown;
  double end = -1e9;
  for (const Tick& tick : axis.ticks) {
    if (tick.value < axis.min * (1 - 1e-9) || tick.value > axis.max * (1 + 1e-9)) continue;
    const double at = axis_position(axis, tick.value) * length;
    const double half = svg_text_width(tick.text) / 2;
    if (at - half < end + kApart) continue;
    end = at + half;
    shown.push_back(&tick);
  }
  return shown;
}

bool has_line(ChartSeries::Mark mark) {
  using enum ChartSeries::Mark;
  return mark == line || mark == line_and_points || mark == steps;
}

void SvgPicture::grid(double x1, double y1, double x2, double y2) {
  body_ +=
      fmt::format("<path class=\"grid\" stroke=\"#e5e7eb\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n",
                  x1, y1, x2, y2);
}

void SvgPicture::rule(double x1, double y1, double x2, double y2, bool is_dashed) {
  body_ += fmt::format(
      "<path class=\"rule\" stroke=\"#6b7280\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"{}/>\n", x1, y1,
      x2, y2, is_dashed ? " stroke-dasharray=\"4 3\"" : "");
}

void SvgPicture::text(double x, double y, const std::string& text, std::string_view anchor,
                      std::string_view extra) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{} {}>{}</text>\n", x, y,
                       anchor == "start" ? "" : fmt::format(" text-anchor=\"{}\"", anchor), extra,
                       html_escape(text));
}

void SvgPicture::region(double x, double y, double width, double height, bool is_even) {
  body_ += fmt::format(
      "<rect class=\"{}\" fill=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"{:.1f}\"/>\n",
      is_even ? "region even" : "region odd", is_even ? "#eef4fb" : "#fdf3e7", x, y,
      std::max(width, 0.0), height);
}

void SvgPicture::begin(const ChartSeries& series) {
  const SeriesColour& colour = colour_of(series);
  body_ +=
      fmt::format("<g class=\"series {}{}\" color=\"{}\" data-name=\"{}\"", colour_class(series),
                  series.hidden ? " off" : "", colour.light, html_escape(series.name));
  if (!series.group.empty()) body_ += fmt::format(" data-group=\"{}\"", html_escape(series.group));
  if (!series.work.empty()) body_ += fmt::format(" data-work=\"{}\"", html_escape(series.work));
  if (!series.implementation.empty())
    body_ += fmt::format(" data-implementation=\"{}\"", html_escape(series.implementation));
  // A figure has no switch that would show a hidden series.
  if (series.hidden && frame_.is_figure) body_ += " display=\"none\"";
  body_ += ">\n";
}

void SvgPicture::end() {
  body_ += "</g>\n";
}

void SvgPicture::polyline(const std::string& points, bool is_dashed) {
  body_ += fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" "
      "stroke-linejoin=\"round\"{}/>\n",
      points, is_dashed ? " stroke-dasharray=\"8 6\"" : "");
}

void SvgPicture::area(const std::string& points, bool is_interval) {
  body_ += fmt::format("<polygon{} points=\"{}\" fill=\"currentColor\" fill-opacity=\"{}\"/>\n",
                       is_interval ? " class=\"w\"" : "", points, is_interval ? 0.2 : 0.3);
}

void SvgPicture::segment(double x1, double y1, double x2, double y2) {
  body_ += fmt::format(
      "<path stroke=\"currentColor\" stroke-width=\"2\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", x1,
      y1, x2, y2);
}

void SvgPicture::mark(double x, double y, const ChartSeries& series, const ChartPoint* point) {
  using enum ChartSeries::Mark;
  const std::string answers = hover(point, frame_);
  switch (series.mark) {
    case line:
    case steps:
      return;
    case area:
      bar(x - 6, y - 5, 12, 10, point, /*is_faint=*/true);
      return;
    case crosses:
      body_ += fmt::format(
          "<path{} stroke=\"currentColor\" stroke-width=\"2\" d=\"M{:.1f} {:.1f}l9 9m0 -9l-9 "
          "9\"/>\n",
          answers, x - 4.5, y - 4.5);
      return;
    case rings:
      body_ += fmt::format(
          "<circle{} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.6\" fill=\"none\" stroke=\"currentColor\" "
          "stroke-width=\"2\"/>\n",
          answers, x, y);
      return;
    case points:
    case line_and_points:
      break;
  }
  // Shapes tell series apart where colours do not.
  const int shape = series.colour < 0 ? 0 : series.colour % 4;
  if (shape == 0)
    body_ += fmt::format(
        "<circle{} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.8\" fill=\"currentColor\"/>\n", answers, x, y);
  else if (shape == 1)
    body_ += fmt::format(
        "<rect{} x=\"{:.1f}\" y=\"{:.1f}\" width=\"7\" height=\"7\" fill=\"currentColor\"/>\n",
        answers, x - 3.5, y - 3.5);
  else
    body_ += fmt::format("<path{} d=\"M{:.1f} {:.1f}{}\" fill=\"currentColor\"/>\n", answers, x,
                         shape == 2 ? y - 4.6 : y - 4.8,
                         shape == 2 ? "l4.5 7.8h-9z" : "l4.8 4.8l-4.8 4.8l-4.8 -4.8z");
}

void SvgPicture::bar(double x, double y, double width, double height, const ChartPoint* point,
                     bool is_faint) {
  body_ += fmt::format(
      "<rect{} x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "fill=\"currentColor\"{}/>\n",
      hover(point, frame_), x, y, std::max(width, 0.5), height,
      is_faint ? " fill-opacity=\"0.3\"" : "");
}

void SvgPicture::whisker_up(double x, double low, double high) {
  body_ += fmt::format(
      "<path class=\"w\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.3\" d=\"M{:.1f} "
      "{:.1f}h6m-3 0V{:.1f}m-3 0h6\"/>\n",
      x - 3, low, high);
}

void SvgPicture::whisker_along(double low, double high, double y) {
  body_ += fmt::format(
      "<path class=\"w\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.3\" d=\"M{:.1f} "
      "{:.1f}v6m0 -3H{:.1f}m0 -3v6\"/>\n",
      low, y - 3, high);
}

void SvgPicture::keep_clear(double x, double y) {
  taken_.push_back(SvgBox::around(x, y, 5));
}

bool SvgPicture::crosses_label(double x, double y, const SvgBox& place) const {
  constexpr int kSteps = 24;
  const double end_x = std::clamp(x, place.x1, place.x2), end_y = std::clamp(y, place.y1, place.y2);
  for (int i = 0; i <= kSteps; ++i) {
    const double at_x = x + (end_x - x) * i / kSteps, at_y = y + (end_y - y) * i / kSteps;
    if (SvgBox::around(at_x, at_y, 0).overlaps(labels_)) return true;
  }
  return false;
}

void SvgPicture::label(double x, double y, const std::string& text, const SvgBox& within) {
  const double width = svg_text_width(text) * 11 / 12, height = 13;
  // Tries places beside the point, then farther away with a leader line.
  for (const double away : {8.0, 24.0, 42.0, 62.0, 84.0}) {
    const SvgBox places[] = {{x + away, y - height / 2, x + away + width, y + height / 2},
                             {x - away - width, y - height / 2, x - away, y + height / 2},
                             {x - width / 2, y - away - height, x + width / 2, y - away},
                             {x - width / 2, y + away, x + width / 2, y + away + height},
                             {x + away / 2, y - away - height, x + away / 2 + width, y - away},
                             {x - away / 2 - width, y - away - height, x - away / 2, y - away},
                             {x + away / 2, y + away, x + away / 2 + width, y + away + height},
                             {x - away / 2 - width, y + away, x - away / 2, y + away + height}};
    for (const SvgBox& place : places) {
      if (!place.is_inside(within) || place.overlaps(taken_) ||
          (away > 8 && crosses_label(x, y, place)))
        continue;
      taken_.push_back(place);
      labels_.push_back(place);
      // A ring marks the point at which the leader ends, as others may be close.
      if (away > 8)
        body_ += fmt::format(
            "<circle class=\"leader\" cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"7\" fill=\"none\" "
            "stroke=\"#6b7280\" stroke-width=\"0.8\"/>\n"
            "<path class=\"leader\" stroke=\"#6b7280\" stroke-width=\"0.8\" d=\"M{0:.1f} "
            "{1:.1f}L{2:.1f} {3:.1f}\"/>\n",
            x, y, std::clamp(x, place.x1, place.x2), std::clamp(y, place.y1, place.y2));
      this->text(place.x1, place.y2 - 3, text, "start",
                 "class=\"name\" font-size=\"11\" paint-order=\"stroke\" stroke=\"#ffffff\" "
                 "stroke-width=\"3\"");
      return;
    }
  }
}

void SvgPicture::keep_clear_along(double x1, double y1, double x2, double y2) {
  constexpr double kStep = 4, kReach = 1.5;
  const int steps = std::max(1, static_cast<int>(length_of({x1, y1, x2, y2}) / kStep));
  for (int i = 0; i <= steps; ++i) {
    const double x = x1 + (x2 - x1) * i / steps, y = y1 + (y2 - y1) * i / steps;
    taken_.push_back(SvgBox::around(x, y, kReach));
  }
}

void SvgPicture::label_along(const SvgBox& line, const std::string& text, bool at_end,
                             const SvgBox& within) {
  constexpr double kReach = 3.5;  // half of the height of letters
  const double length = length_of(line);
  const double width = svg_text_width(text) * 11 / 12;
  if (!(length > 0) || width + 12 > length) return;
  const double along_x = (line.x2 - line.x1) / length, along_y = (line.y2 - line.y1) / length;
  // Tries the side above the line, then the one below.
  for (const double away : {9.0, -10.0}) {
    for (const double from_end : {6.0, 30.0, 60.0, 100.0, 150.0}) {
      const double begin = at_end ? length - from_end - width : from_end;
      if (begin < 0 || begin + width > length) continue;
      const double x = line.x1 + along_x * begin + along_y * away,
                   y = line.y1 + along_y * begin - along_x * away;
      std::vector<SvgBox> boxes;
      for (double at = 0; at <= width; at += kReach)
        boxes.push_back(SvgBox::around(x + along_x * at, y + along_y * at, kReach));
      const bool is_free = std::ranges::all_of(
          boxes, [&](const SvgBox& box) { return box.is_inside(within) && !box.overlaps(taken_); });
      if (!is_free) continue;
      taken_.insert(taken_.end(), boxes.begin(), boxes.end());
      labels_.insert(labels_.end(), boxes.begin(), boxes.end());
      const double degrees = std::atan2(along_y, along_x) * 180 / std::numbers::pi;
      // The baseline lies below the middle of the letters.
      const double base_x = x - along_y * kReach, base_y = y + along_x * kReach;
      this->text(base_x, base_y, text, "start",
                 fmt::format("class=\"name\" font-size=\"11\" paint-order=\"stroke\" "
                             "stroke=\"#ffffff\" stroke-width=\"3\" "
                             "transform=\"rotate({:.1f} {:.1f} {:.1f})\"",
                             degrees, base_x, base_y));
      return;
    }
  }
}

void SvgPicture::title_of_axis(double from, double to, double y, const Axis& axis) {
  double middle = (from + to) / 2;
  for (const std::string& line : wrapped_text(axis_title(axis), frame_.width - 8, 2)) {
    const double half = svg_text_width(line) / 2;
    middle = std::clamp(middle, half, std::max(half, frame_.width - half));
    text(middle, y, line, "middle");
    y += kLegendLine - 3;
  }
}

double SvgPicture::head(const Chart& chart, const std::string& caption) {
  if (!frame_.is_figure) return 14;
  text(kEdge, 24, chart.title, "start",
       "font-size=\"15\" font-weight=\"600\" class=\"strong\" fill=\"#111827\"");
  double y = 42;
  if (!caption.empty()) {
    text(kEdge, y, caption);
    y += kLegendLine;
  }
  double x = kEdge;
  std::set<std::string> named;
  for (const ChartSeries& series : chart.series) {
    if (series.hidden || !named.insert(series.name).second) continue;
    const double width = svg_text_width(series.name) + 34;
    if (x > kEdge && x + width > frame_.width - kEdge) {
      x = kEdge;
      y += kLegendLine;
    }
    begin(series);
    if (chart.kind != Chart::Kind::xy && chart.kind != Chart::Kind::dots) {
      bar(x, y - 9, 12, 10, nullptr);
    } else {
      if (chart.kind == Chart::Kind::xy && has_line(series.mark))
        segment(x - 2, y - 4, x + 14, y - 4);
      mark(x + 6, y - 4, series, nullptr);
    }
    end();
    text(x + 19, y, series.name);
    x += width;
  }
  return y + 16;
}

std::string SvgPicture::finish(const Chart& chart, double height) const {
  const std::string named =
      frame_.is_figure
          ? fmt::format(
                "role=\"img\" aria-label=\"{0}\" width=\"{2:.0f}\" height=\"{3:.0f}\">\n"
                "<title>{0}</title>\n<desc>{1}</desc>\n"
                "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
                html_escape(chart.title), html_escape(chart.description), frame_.width, height)
          // The page has the accessible name.
          : fmt::format("class=\"{}\" aria-hidden=\"true\">\n",
                        frame_.is_narrow() ? "narrow" : "wide");
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\" "
      "fill=\"#374151\" {}{}</svg>\n",
      frame_.width, height, named, body_);
}

}  // namespace ridgeline
