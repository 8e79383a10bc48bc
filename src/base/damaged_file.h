// The error for a file, of a tokenizer or of weights, that cannot be what it says.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace ridgeline {

inline Error damaged_file(std::string problem) {
  return {ErrorKind::usage, std::move(problem),
          "the file is damaged or not what it says; get it again"};
}

}  // namespace ridgeline
