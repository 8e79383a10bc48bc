// Charts of a section in the page: pictures that answer the pointer, keys and switches, timelines
// on a canvas, and their numbers as tables.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

// The list of views, where there are several, and the charts of each: the pictures, and the others
// folded.
std::string views_html(const ReportSection& section);

}  // namespace ridgeline
