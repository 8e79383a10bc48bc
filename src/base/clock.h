// The clock that intervals are taken by.
#pragma once

#include <cstdint>

namespace ridgeline {

// Seconds since some moment in the past; never goes back.
double monotonic_s();
int64_t monotonic_ns();  // the same clock

}  // namespace ridgeline
