// A chart as a static SVG picture: for papers, for print, and for readers without scripts.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

// A whole document with a white ground, ready for a file or for the inside of a page. `caption` is
// written below the title, such as "fp32, d 64"; empty: nothing.
std::string to_svg(const Chart& chart, const std::string& caption = {});

}  // namespace ridgeline
