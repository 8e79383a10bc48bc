// Charts with a row per category, inside svg_chart.cc's dispatch: bars, stacked bars, dots,
// waterfalls and tracks.
#pragma once

#include <string>

#include "report/page/svg_picture.h"

namespace ridgeline {

std::string rows_svg(const Chart& chart, const SvgFrame& frame, const std::string& caption);

}  // namespace ridgeline
