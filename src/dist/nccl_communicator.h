// Ranks that are GPUs, by NCCL, which is opened at run time.
#pragma once

#include <memory>
#include <string>

#include "dist/communicator.h"
#include "dist/device_queue.h"

namespace ridgeline {

// The bytes by which ranks find each other: made by rank 0, and sent to all.
inline constexpr size_t kNcclIdBytes = 128;
std::string make_nccl_id();

struct NcclOptions {
  int rank = 0, size = 1;
  std::string id = {};
};
// All ranks call it together, each with a GPU of its own, whose queue outlives the communicator.
// NCCL refuses two ranks on one GPU. Throws an unsupported error where NCCL is not found, an
// environment error where it fails. Collectives can be captured into a launch graph, which has to
// be gone before the communicator is. Sums in 16 bits are NCCL's own.
std::unique_ptr<Communicator> make_nccl_communicator(const NcclOptions& options,
                                                     DeviceQueue& queue);

}  // namespace ridgeline
