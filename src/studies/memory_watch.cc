#include "studies/memory_watch.h"

#include "measure/process_memory.h"

namespace ridgeline {

MemoryWatch::MemoryWatch(Device& device) : device_(device) {
  device.ledger().start_over();
  resettable_ = reset_peak_rss();
  resident_before_ = current_rss();
  driver_before_ = device.driver_memory_in_use();
}

void MemoryWatch::after_fill() {
  resettable_ = reset_peak_rss();
}

void MemoryWatch::after_run(MemoryFacts& facts) const {
  facts.peak = device_.ledger().peak();
  // Freed blocks stay cached, so what the driver counts now is the peak.
  if (driver_before_) {
    const std::optional<Bytes> now = device_.driver_memory_in_use();
    if (now) facts.driver_peak_growth = *now - *driver_before_;
    return;
  }
  const std::optional<Bytes> peak = peak_rss();
  if (resettable_ && resident_before_ && peak)
    facts.process_peak_growth = *peak - *resident_before_;
}

}  // namespace ridgeline
