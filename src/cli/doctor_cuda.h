// The part of `ridgeline doctor` about NVIDIA GPUs.
#pragma once

namespace ridgeline {

// Prints driver, libraries, GPUs and kernel cache, and a last line that says whether --device cuda
// works. Changes nothing; a missing part is reported as a line, not as an error.
void print_cuda_facts();

}  // namespace ridgeline
