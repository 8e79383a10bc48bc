// What of the machine this process may use: cores and memory, within its control groups
// (containers, batch systems).
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

struct MachineMemory {
  Bytes total;
  Bytes available;  // without swapping
};

// The memory now, within the limits of control groups.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

// Hardware threads of the affinity mask, and no more than the quota of the control group.
int available_threads();

}  // namespace ridgeline
