// A chart as an SVG picture: for papers and slides, and for the page, which brings it to life.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

// A whole document with a white ground, ready for a file. `caption` is written below the title,
// such as "fp32, d 64"; empty: nothing.
std::string to_svg(const Chart& chart, const std::string& caption = {});

// The plot alone, in so many pixels: the page has the title, the legend and the colours.
std::string to_page_svg(const Chart& chart, double width);

}  // namespace ridgeline
