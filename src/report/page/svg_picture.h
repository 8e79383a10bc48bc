// Writes the SVG elements of a chart, in painting order. Colours are attributes for a light ground,
// so that a file is self-contained; a page overrides them by class.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/page/document.h"

namespace ridgeline {

// The kind of picture. Figures include their own title, legend and ground.
struct SvgFrame {
  static constexpr double kWide = 720, kNarrow = 340;  // for desktops and phones

  double width = kWide;
  bool is_figure = true;

  bool is_narrow() const { return width < 500; }
};

double svg_text_width(std::string_view text);
// Wraps a text to at most `most` lines of `room` pixels; a text that is cut ends in "...".
std::vector<std::string> wrapped_text(const std::string& text, double room, size_t most);

struct SvgBox {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;

  static SvgBox around(double x, double y, double reach) {
    return {x - reach, y - reach, x + reach, y + reach};
  }
  bool is_inside(const SvgBox& other) const {
    return x1 >= other.x1 && x2 <= other.x2 && y1 >= other.y1 && y2 <= other.y2;
  }
  bool overlaps(const SvgBox& other) const {
    return x1 < other.x2 && other.x1 < x2 && y1 < other.y2 && other.y1 < y2;
  }
  bool overlaps(const std::vector<SvgBox>& others) const {
    for (const SvgBox& other : others)
      if (overlaps(other)) return true;
    return false;
  }
};

// Returns a position from 0 at the start of the axis to 1 at its end.
double axis_position(const Axis& axis, double value);
// "median time (lower is better)".
std::string axis_title(const Axis& axis);
// Returns the ticks whose texts do not overlap on an axis of `length` pixels.
std::vector<const Tick*> ticks_with_room(const Axis& axis, double length);

bool has_line(ChartSeries::Mark mark);

class SvgPicture {
 public:
  explicit SvgPicture(const SvgFrame& frame) : frame_(frame) {}

  // Elements in neutral colours.
  void grid(double x1, double y1, double x2, double y2);
  void rule(double x1, double y1, double x2, double y2, bool is_dashed = false);
  void text(double x, double y, const std::string& text, std::string_view anchor = "start",
            std::string_view extra = "");
  void region(double x, double y, double width, double height, bool is_even);

  // Elements between begin() and end() have the colour of the series and are toggled with it.
  void begin(const ChartSeries& series);
  void end();
  void polyline(const std::string& points, bool is_dashed);
  void area(const std::string& points, bool is_interval);
  void segment(double x1, double y1, double x2, double y2);
  // Marks and bars have the text of their point as a tooltip.
  void mark(double x, double y, const ChartSeries& series, const ChartPoint* point);
  void bar(double x, double y, double width, double height, const ChartPoint* point,
           bool is_faint = false);
  // The error bar of a point, vertical or horizontal.
  void whisker_up(double x, double low, double high);
  void whisker_along(double low, double high, double y);
  // Keeps labels off a mark.
  void keep_clear(double x, double y);
  // Labels a point, beside it or with a leader, clear of marks and labels. Omitted without room.
  void label(double x, double y, const std::string& text, const SvgBox& within);
  // Keeps labels off a line.
  void keep_clear_along(double x1, double y1, double x2, double y2);
  // Labels a line above or below it, near its first or its last point. Omitted without room.
  void label_along(const SvgBox& line, const std::string& text, bool at_end, const SvgBox& within);
  // Writes the title below the axis, on two lines if one is too short.
  void title_of_axis(double from, double to, double y, const Axis& axis);

  // Writes title, caption and legend of a figure; returns the y at which the plot may begin.
  double head(const Chart& chart, const std::string& caption);
  std::string finish(const Chart& chart, double height) const;

 private:
  // Returns whether the leader from a point to its label would cross another label.
  bool crosses_label(double x, double y, const SvgBox& place) const;

  SvgFrame frame_;
  std::string body_;
  std::vector<SvgBox> taken_;
  std::vector<SvgBox> labels_;  // labels among `taken_`, which no leader may cross
};

}  // namespace ridgeline
