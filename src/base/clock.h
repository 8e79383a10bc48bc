// The clock that intervals are taken by.
#pragma once

namespace ridgeline {

// Seconds since some moment in the past; never goes back.
double monotonic_s();

}  // namespace ridgeline
