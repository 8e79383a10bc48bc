// The charts of a section as HTML: SVG with tooltips, legends with switches, timelines on a canvas,
// and their numbers as tables.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

// Returns the selector of views if there are several, and the charts of each, some of them folded.
std::string views_html(const ReportSection& section);

}  // namespace ridgeline
