// How compilers tell how far they are, and what they are given instead of a text.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace ridgeline {

// Called as kernels become ready, beginning with none; never by two threads at once.
using CompileHook = std::function<void(size_t ready, size_t wanted)>;

// Tests plant faults with it: what is compiled instead of the text of the kernel `entry`. May be
// called by several threads at once.
using TextHook = std::function<std::string(const std::string& entry, const std::string& text)>;

}  // namespace ridgeline
