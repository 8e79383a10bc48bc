// What the control groups of this process (containers, batch systems) leave of the machine.
#pragma once

#include <filesystem>
#include <optional>

#include "base/units.h"

namespace ridgeline {

// The tightest limit on the way from the process's own group to the root; empty: no limit.
struct CgroupLimits {
  std::optional<Bytes> memory;
  std::optional<Bytes> memory_left;  // the limit less what is used and cannot be reclaimed
  std::optional<double> cpu_cores;
};

// Reads versions 1 and 2 below `root` ("/" but for tests).
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace ridgeline
