// What the files of `ridgeline doctor` share.
#pragma once

#include <string>

#include "base/print.h"

namespace ridgeline {

// An empty `what` continues the line above.
inline void doctor_line(const std::string& what, const std::string& found) {
  print("  {:<22}{}\n", what, found);
}

// Prints driver, libraries, GPUs and kernel cache, and a last line that says whether --device cuda
// works. Changes nothing; a missing part is reported as a line, not as an error.
void print_cuda_facts();

}  // namespace ridgeline
