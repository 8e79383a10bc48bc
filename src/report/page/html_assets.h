// The style sheet and the scripts of the report, which the build embeds into the binary
// (cmake/embed_text.cmake), so that making a report needs no other file.
#pragma once

#include <span>

#include "base/embedded_text.h"

namespace ridgeline {

std::span<const EmbeddedText> report_assets();  // named by file: "report.css"

}  // namespace ridgeline
