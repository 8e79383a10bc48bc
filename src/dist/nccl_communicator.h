// A communicator over GPUs by NCCL, which is opened at run time.
#pragma once

#include <memory>
#include <string>

#include "dist/communicator.h"
#include "dist/device_queue.h"

namespace ridgeline {

// The ncclUniqueId: made by rank 0, and sent to all ranks.
inline constexpr size_t kNcclIdBytes = 128;
std::string make_nccl_id();

struct NcclOptions {
  int rank = 0, size = 1;
  std::string id = {};
};
// All ranks call it together, each with its own GPU, as NCCL refuses two ranks on one GPU; the
// queue must outlive the communicator. Throws an unsupported error if NCCL is not found, an
// environment error if it fails. Collectives can be captured into a launch graph, which must be
// destroyed before the communicator. NCCL determines how sums in 16 bits are rounded.
std::unique_ptr<Communicator> make_nccl_communicator(const NcclOptions& options,
                                                     DeviceQueue& queue);

}  // namespace ridgeline
