// Environment variables.
#pragma once

#include <string>

namespace ridgeline {

// Returns an empty string if the variable is not set.
std::string environment(const char* name);

}  // namespace ridgeline
