// The style, the script and the charts library of the report as text, in the binary. The build
// writes the table (cmake/embed_text.cmake), so that a report needs nothing on the machine it is
// made on.
#pragma once

#include <span>

#include "base/embedded_text.h"

namespace ridgeline {

std::span<const EmbeddedText> report_assets();  // "report.css", "report.js", "Chart.min.js"

}  // namespace ridgeline
