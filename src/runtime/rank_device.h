// The device of one rank of several that share a host, made from what rank 0 says of its own.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace ridgeline {

struct RankDeviceOptions {
  std::string kind = "cpu";  // as DeviceFacts has it
  int threads = 1;           // of a CPU
  int first_gpu = 0;         // of the first rank of a host
  bool deterministic = false;
};

// GPUs go round: rank 3 of a host with two of them has the second one. Throws as the device does
// where it cannot be driven, and a usage error for a kind that is none.
std::unique_ptr<Device> make_rank_device(const RankDeviceOptions& options, int rank_of_host);

// Among so many ranks of this host, those that share one device.
int ranks_per_device(const DeviceFacts& facts, int ranks_of_host);

}  // namespace ridgeline
