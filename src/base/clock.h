// The monotonic clock.
#pragma once

#include <cstdint>

namespace ridgeline {

// Both read the same clock, whose epoch is arbitrary.
double monotonic_s();
int64_t monotonic_ns();

}  // namespace ridgeline
