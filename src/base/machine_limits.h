// The cores and memory that this process may use within its control groups (containers, batch
// systems).
#pragma once

#include <filesystem>
#include <optional>

#include "base/units.h"

namespace ridgeline {

// The tightest limits from the process's own group up to the root; nullopt: no limit.
struct CgroupLimits {
  std::optional<Bytes> memory;
  std::optional<Bytes> memory_left;  // the limit minus used memory that cannot be reclaimed
  std::optional<double> cpu_cores;
};

// Reads versions 1 and 2 under `root` ("/" except in tests).
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

struct MachineMemory {
  Bytes total;
  Bytes available;  // without swapping
};

// The current memory, within the limits of control groups.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

// Hardware threads of the affinity mask, limited by the quota of the control group.
int available_threads();

}  // namespace ridgeline
