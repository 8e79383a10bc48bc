// A text file embedded in the binary. The build generates tables of them (cmake/embed_text.cmake).
#pragma once

#include <string_view>

namespace ridgeline {

struct EmbeddedText {
  std::string_view name;  // "flash_forward.cu", "report.css"
  std::string_view text;
};

}  // namespace ridgeline
