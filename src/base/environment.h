// Variables of the environment.
#pragma once

#include <string>

namespace ridgeline {

// Empty: not set, or set to nothing.
std::string environment(const char* name);

}  // namespace ridgeline
