// The CUDA kernels as text, embedded in the binary.
#pragma once

#include <span>

#include "base/embedded_text.h"

namespace ridgeline {

// All texts; each ends with a null character.
std::span<const EmbeddedText> cuda_texts();

// The files of this folder and its subfolders, a table written by the build
// (cmake/embed_text.cmake).
std::span<const EmbeddedText> built_cuda_texts();

}  // namespace ridgeline
