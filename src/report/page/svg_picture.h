// The elements of a chart's picture in the order in which they are painted. Colours are those of a
// light ground, as attributes, so that a file needs nothing else; a page overrides them by class.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/page/document.h"

namespace ridgeline {

// Where a picture goes. Figures carry their own title, legend and ground.
struct SvgFrame {
  static constexpr double kWide = 720, kNarrow = 340;  // of a desk and of a phone

  double width = kWide;
  bool is_figure = true;

  bool is_narrow() const { return width < 500; }
};

double svg_text_width(std::string_view text);
// Words on at most so many lines of so many pixels; what is left of the last one ends in "...".
std::vector<std::string> wrapped_text(const std::string& text, double room, size_t most);

struct SvgBox {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

// 0 at the beginning of the axis, 1 at its end.
double axis_position(const Axis& axis, double value);
// "median time (lower is better)".
std::string axis_title(const Axis& axis);
// The ticks whose texts do not touch along so many pixels.
std::vector<const Tick*> ticks_with_room(const Axis& axis, double length);

bool has_line(ChartSeries::Mark mark);

class SvgPicture {
 public:
  explicit SvgPicture(const SvgFrame& frame) : frame_(frame) {}

  const SvgFrame& frame() const { return frame_; }

  // Neutral: a grid line, an axis, words.
  void grid(double x1, double y1, double x2, double y2);
  void rule(double x1, double y1, double x2, double y2, bool is_dashed = false);
  void text(double x, double y, const std::string& text, std::string_view anchor = "start",
            std::string_view extra = "");
  void region(double x, double y, double width, double height, bool is_even);

  // What follows has the colour of the series, and is shown and hidden with it.
  void begin(const ChartSeries& series);
  void end();
  void polyline(const std::string& points, bool is_dashed);
  void area(const std::string& points, bool is_interval);
  void segment(double x1, double y1, double x2, double y2);
  // Marks and bars answer the pointer with the text of their point.
  void mark(double x, double y, const ChartSeries& series, const ChartPoint* point);
  void bar(double x, double y, double width, double height, const ChartPoint* point,
           bool is_faint = false);
  // The interval of a point: a line with ends, across or along.
  void whisker_up(double x, double low, double high);
  void whisker_along(double low, double high, double y);
  // Beside a point, or a thin line away from it: where neither a mark nor another label lies.
  void keep_clear(double x, double y);
  void label(double x, double y, const std::string& text, const SvgBox& within);
  // A line that no label may lie on.
  void keep_clear_along(double x1, double y1, double x2, double y2);
  // Above a line, or below it, where no other line lies: from its first point on, or up to its
  // last one. Nothing where there is no room.
  void label_along(const SvgBox& line, const std::string& text, bool at_end, const SvgBox& within);
  // Below the axis, on two lines where one is too short.
  void title_of_axis(double from, double to, double y, const Axis& axis);

  // Title, caption and legend of a figure; returns where the plot may begin.
  double head(const Chart& chart, const std::string& caption);
  std::string finish(const Chart& chart, double height) const;

 private:
  // Whether the line from a point to the place of its label would cross another label.
  bool crosses_label(double x, double y, const SvgBox& place) const;

  SvgFrame frame_;
  std::string body_;
  std::vector<SvgBox> taken_;
  std::vector<SvgBox> labels_;  // of those, what no leader may cross
};

}  // namespace ridgeline
