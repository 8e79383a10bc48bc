// A report as Markdown: the same sentences and tables, with the numbers in place of the charts.
#pragma once

#include <string>

#include "report/page/document.h"

namespace ridgeline {

std::string to_markdown(const ReportDocument& document);

}  // namespace ridgeline
