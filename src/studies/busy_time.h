// The device's busy time beside the wall time of a record's series, measured apart from the
// samples.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// A median of which the device was busy for less than this share tells of the host.
inline constexpr double kHostBoundShare = 0.8;

struct BusyPhase {
  std::string series;
  std::function<std::optional<double>()> busy_ms;  // of one sample, see Device::busy_ms()
};

// Runs the phases in turn several times and puts the median of each into its metrics (`busy_ms`),
// with `host_bound`. Leaves out what the device does not tell.
void add_busy_times(const std::vector<BusyPhase>& phases, Record& record);

}  // namespace ridgeline
