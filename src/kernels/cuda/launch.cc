#include "kernels/cuda/launch.h"

#include <fmt/format.h>

namespace ridgeline {

std::string CudaFacts::arch() const {
  // From 9.0 on, instructions that only this architecture has need the suffix.
  return fmt::format("sm_{}{}", compute_capability, compute_capability >= 90 ? "a" : "");
}

}  // namespace ridgeline
