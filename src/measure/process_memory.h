// The resident size of this process as the kernel counts it, an independent check of the ledger.
#pragma once

#include <optional>

#include "base/units.h"

namespace ridgeline {

// Both return nullopt if /proc is not mounted.
std::optional<Bytes> current_rss();
std::optional<Bytes> peak_rss();  // since the process started, or since the last reset

// Sets the peak to the current size, so that peak_rss() covers one workload only. Returns false if
// the kernel refuses.
bool reset_peak_rss();

}  // namespace ridgeline
