// A report as one HTML file that needs neither a network nor other files.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

std::string to_html(const ReportDocument& document);

}  // namespace ridgeline
