// What of a section goes to the page of answers, and to those of Markdown and the terminal.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

// It asks and answers something about what was measured: not a list of rows, of machines, or of
// lines that were not read.
bool is_finding(const ReportSection& section);

// An answer begins with a sentence that stands by itself: the section has the rest.
std::string first_sentence(const std::string& answer);

}  // namespace ridgeline
