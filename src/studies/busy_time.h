// Measures the device's busy time for the series of a record, outside of the timed samples.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// A phase is host-bound if the device is busy for less than this share of its median wall time.
inline constexpr double kHostBoundShare = 0.8;

struct BusyPhase {
  std::string series;
  std::function<std::optional<double>()> busy_ms;  // of one execution, see Device::busy_ms()
};

// Runs the phases in turn several times and stores the median of each in the record's metrics
// (`busy_ms`), with `host_bound`. Leaves out phases without a busy time.
void add_busy_times(const std::vector<BusyPhase>& phases, Record& record);

}  // namespace ridgeline
