// Collectives over the memory of a device, for ranks that can already talk to each other by a
// communicator of their hosts.
//
//   const auto over_gpus = make_device_communicator(host, *device.communication_queue(), "nccl");
//
// nccl: NCCL moves the data, in the device's own queue; each rank needs a GPU of its own. Any other
// backend is that of `host`, and tensors are staged: copied to page-locked memory of the host,
// communicated there, and copied back, which serves ranks that share a GPU as well.
#pragma once

#include <memory>
#include <string_view>

#include "dist/communicator.h"
#include "dist/device_queue.h"

namespace ridgeline {

inline constexpr std::string_view kNcclBackend = "nccl";

// All ranks call it together. `host` and `queue` outlive the communicator. Throws an unsupported
// error where NCCL is not found.
std::unique_ptr<Communicator> make_device_communicator(Communicator& host, DeviceQueue& queue,
                                                       std::string_view backend);

}  // namespace ridgeline
