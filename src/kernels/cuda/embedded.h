// The CUDA kernels as text, in the binary. The build writes the table (cmake/embed_text.cmake).
#pragma once

#include <span>

#include "base/embedded_text.h"

namespace ridgeline {

std::span<const EmbeddedText> cuda_texts();

}  // namespace ridgeline
