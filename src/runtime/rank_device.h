// Creates the device of a rank on a shared host, from rank 0's description of its own.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace ridgeline {

struct RankDeviceOptions {
  std::string kind = "cpu";  // as in DeviceFacts
  int threads = 1;           // of a CPU
  int first_gpu = 0;         // of the first rank of a host
  bool deterministic = false;
};

// GPUs are assigned round-robin: rank 3 of a host with two of them has the second one. Throws as
// the device does if it is not usable, and a usage error for an unknown kind.
std::unique_ptr<Device> make_rank_device(const RankDeviceOptions& options, int rank_of_host);

// How many of the host's ranks share one device.
int ranks_per_device(const DeviceFacts& facts, int ranks_of_host);

}  // namespace ridgeline
