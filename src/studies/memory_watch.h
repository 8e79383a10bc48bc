// Memory of one run: by the ledger, and by the operating system or the driver of a GPU.
#pragma once

#include <optional>

#include "measure/record.h"
#include "runtime/device.h"

namespace ridgeline {

class MemoryWatch {
 public:
  explicit MemoryWatch(Device& device);

  // What drawing the inputs took on the host is not the run's: the peak is looked for from here.
  void after_fill();

  // Fills in what was measured since.
  void after_run(MemoryFacts& facts) const;

 private:
  Device& device_;
  bool resettable_ = false;
  std::optional<Bytes> resident_before_, driver_before_;
};

}  // namespace ridgeline
