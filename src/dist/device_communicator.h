// Makes communicators over device memory, for ranks that already share a host communicator.
//
//   const auto over_gpus = make_device_communicator(host, *device.communication_queue(), "nccl");
//
// With "nccl", NCCL moves the data on a stream of the device; each rank needs its own GPU. With any
// other backend, `host` communicates tensors staged through page-locked host memory, which also
// works for ranks that share a GPU.
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
