// The style and the scripts of the report as text, in the binary. The build writes the table
// (cmake/embed_text.cmake), so that a report needs nothing on the machine it is made on.
#pragma once

#include <span>

#include "base/embedded_text.h"

namespace ridgeline {

std::span<const EmbeddedText> report_assets();  // by the name of its file: "report.css"

}  // namespace ridgeline
