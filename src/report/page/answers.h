// Selects the sections and sentences for the list of answers, in HTML, Markdown and the terminal.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

// Returns whether the section answers a question about the measurements, unlike the lists of rows,
// of machines and of unread lines.
bool is_finding(const ReportSection& section);

// Returns the first sentence of an answer, which makes sense alone; the section shows the rest.
std::string first_sentence(const std::string& answer);

}  // namespace ridgeline
