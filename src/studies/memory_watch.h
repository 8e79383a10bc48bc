// Measures the memory of one run: by the ledger, and by the operating system or the GPU's driver.
#pragma once

#include <optional>

#include "measure/record.h"
#include "runtime/device.h"

namespace ridgeline {

class MemoryWatch {
 public:
  explicit MemoryWatch(Device& device);

  // Restarts the process's peak, to leave out the host memory that drawing the inputs took.
  void after_fill();

  // Fills in the measured peaks.
  void after_run(MemoryFacts& facts) const;

 private:
  Device& device_;
  bool resettable_ = false;
  std::optional<Bytes> resident_before_, driver_before_;
};

}  // namespace ridgeline
