// The CUDA kernels as text, in the binary. The build writes the table (cmake/embed_text.cmake).
#pragma once

#include <span>
#include <string_view>

namespace ridgeline {

struct EmbeddedText {
  std::string_view name;  // "flash_forward.cu", "fragments.cuh", "params.h"
  std::string_view text;
};

std::span<const EmbeddedText> cuda_texts();

}  // namespace ridgeline
