// Hooks of the compilers: progress reports, and replacement of texts.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace ridgeline {

// Called as kernels become ready, first with 0; never by two threads at once.
using CompileHook = std::function<void(size_t ready, size_t wanted)>;

// Returns what is compiled instead of the text of the kernel `entry`; tests inject faults with it.
// May be called by several threads at once.
using TextHook = std::function<std::string(const std::string& entry, const std::string& text)>;

}  // namespace ridgeline
