// One line of `ridgeline doctor`.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/print.h"

namespace ridgeline {

// An empty `what` continues the line above.
inline void doctor_line(const std::string& what, const std::string& found) {
  print("  {:<22}{}\n", what, found);
}

}  // namespace ridgeline
