// The answers of a report for a terminal, in one screen.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

// Returns the question and the first sentence of the answer of each section, in the order of the
// report. Leaves out sections that do not fit into `lines`, except the one on trust.
inline constexpr size_t kStoryLines = 20;
std::string story_text(const ReportDocument& document, size_t width, size_t lines = kStoryLines);

}  // namespace ridgeline
