#include "base/environment.h"

#include <cstdlib>

namespace ridgeline {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace ridgeline
