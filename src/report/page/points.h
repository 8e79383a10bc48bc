// Points of charts out of samples: a median with its interval, and the ratio of two.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "measure/record.h"
#include "report/page/axis.h"

namespace ridgeline {

// The median of a phase with the interval of its samples. `of` makes another figure of
// milliseconds, such as FLOP/s. Empty: not measured.
std::optional<ChartPoint> timed_point(double x, const Record& record, std::string_view phase,
                                      Quantity quantity = Quantity::milliseconds,
                                      const std::function<double(double)>& of = {});

// How many times as fast as the base; the interval is what those of both medians allow.
std::optional<ChartPoint> speedup_point(double x, const Record& base, const Record& next,
                                        std::string_view phase);

// A figure that was counted, or of which one value is known.
ChartPoint counted_point(double x, double value, Quantity quantity);

// Makes room for intervals that reach beyond an axis.
void hold_intervals(Chart& chart);

// Lines that lie on another one become dashed, so that both are seen, and the description says so.
void show_coinciding(Chart& chart);

}  // namespace ridgeline
