// The processor's clock as a program can see it, where virtual machines report a nominal one or
// none.
#pragma once

namespace ridgeline {

// Times a chain of dependent additions, one per cycle on any current processor, for about
// five milliseconds, and keeps the fastest of several tries.
double measure_clock_mhz();

}  // namespace ridgeline
