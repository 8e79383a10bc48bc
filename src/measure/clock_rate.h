// Measures the processor's clock rate, which virtual machines report as a nominal value or not at
// all.
#pragma once

namespace ridgeline {

// Times a chain of dependent additions, one per cycle on any current processor, for about five
// milliseconds, and returns the rate of the fastest of several tries.
double measure_clock_mhz();

}  // namespace ridgeline
