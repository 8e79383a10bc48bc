// The resident size of this process as the kernel counts it: the outside check on the memory
// ledger.
#pragma once

#include <optional>

#include "base/units.h"

namespace ridgeline {

// Empty where the kernel does not tell (/proc not mounted).
std::optional<Bytes> current_rss();
std::optional<Bytes> peak_rss();  // since the start of the process, or since the last reset

// Sets the peak to the current size, so that peak_rss() covers one workload only. False where the
// kernel refuses.
bool reset_peak_rss();

}  // namespace ridgeline
