// The answers of a report on a terminal: the same story as the page, in a screenful.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

// At most so many lines of that width: a question and the first sentence of its answer, whole. The
// sections that a report leads with come first; those that find no room are left to the page.
inline constexpr size_t kStoryLines = 20;
std::string story_text(const ReportDocument& document, size_t width, size_t lines = kStoryLines);

}  // namespace ridgeline
