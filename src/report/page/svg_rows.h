// Draws charts with a row per category, for svg_chart.cc: bars, stacked bars, dots, waterfalls and
// tracks.
#pragma once

#include <string>

#include "report/page/svg_picture.h"

namespace ridgeline {

std::string rows_svg(const Chart& chart, const SvgFrame& frame, const std::string& caption);

}  // namespace ridgeline
