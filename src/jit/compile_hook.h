// How compilers tell how far they are.
#pragma once

#include <cstddef>
#include <functional>

namespace ridgeline {

// Called as kernels become ready, beginning with none; never by two threads at once.
using CompileHook = std::function<void(size_t ready, size_t wanted)>;

}  // namespace ridgeline
