// The part of `ridgeline doctor` about NVIDIA GPUs.
#pragma once

namespace ridgeline {

// Prints driver, libraries, GPUs and kernel cache, and ends with one line: does --device cuda work
// here? Changes nothing, and a missing part is a line, never an error.
void print_cuda_facts();

}  // namespace ridgeline
