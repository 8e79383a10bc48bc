// The CUDA kernels as text, in the binary.
#pragma once

#include <span>

#include "base/embedded_text.h"

namespace ridgeline {

// All of them; texts end with a null character.
std::span<const EmbeddedText> cuda_texts();

// The files of this folder and those below it, in a table that the build writes (cmake/embed_text.cmake).
std::span<const EmbeddedText> built_cuda_texts();

}  // namespace ridgeline
