// Points of charts from samples: a median with its interval, and the ratio of two medians.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"
#include "report/page/axis.h"

namespace ridgeline {

struct ReportContext;

// Returns the median of a phase with its interval, or nullopt if it was not measured. `of` converts
// milliseconds to another figure, such as FLOP/s.
std::optional<ChartPoint> timed_point(double x, const Record& record, std::string_view phase,
                                      Quantity quantity = Quantity::milliseconds,
                                      const std::function<double(double)>& of = {});

// Returns the speedup over the base; its interval follows from those of both medians.
std::optional<ChartPoint> speedup_point(double x, const Record& base, const Record& next,
                                        std::string_view phase);

// Returns a point without an interval.
ChartPoint counted_point(double x, double value, Quantity quantity);

// The series of a kind of tensors or of work, added if it is new. Null: the chart has `most`
// series, as records come from files and may name any number of kinds.
ChartSeries* tensor_series(Chart& chart, const std::string& name, int colour,
                           size_t most = std::numeric_limits<size_t>::max());

// Lines over the sizes of rows, one for each implementation.
struct ImplementationLines {
  std::map<std::string, ChartSeries> by_name = {};
  std::vector<double> xs = {}, ys = {};  // what the axes have to include

  void add(const ReportContext& context, const Record& record, ChartPoint point);
  void move_to(Chart& chart);  // at most kMostImplementations
};

// Extends the y axis to include all intervals.
void hold_intervals(Chart& chart);

// Dashes lines that coincide with an earlier one, so that both are visible, and says so in the
// description.
void show_coinciding(Chart& chart);

}  // namespace ridgeline
