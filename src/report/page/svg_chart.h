// A chart as SVG: for papers and slides, and for the page, whose scripts make it interactive.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

// Returns a standalone document on a white ground. `caption`, such as "fp32, d 64", is written
// below the title.
std::string to_svg(const Chart& chart, const std::string& caption = {});

// Returns the plot alone: the page has the title, the legend and the colours.
std::string to_page_svg(const Chart& chart, double width);

}  // namespace ridgeline
