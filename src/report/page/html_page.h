// A report as one HTML file that needs nothing but a browser: no network, no other file.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

std::string to_html(const ReportDocument& document);

}  // namespace ridgeline
