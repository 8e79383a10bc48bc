// Ranks that are GPUs, by NCCL, which is opened at run time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dist/communicator.h"

namespace ridgeline {

// What a device lends to a communicator: a queue of its own and the events of that queue.
struct DeviceQueue {
  void* stream = nullptr;                           // a CUstream
  std::function<void(Event& event)> wait_for = {};  // before whatever is queued next
  std::function<EventRef()> record = {};            // after all that is queued
};

// The bytes by which ranks find each other: made by rank 0, and sent to all through the store.
std::string make_nccl_id();

struct NcclOptions {
  int rank = 0, size = 1;
  std::string id = {};
  DeviceQueue queue = {};
};
// All ranks call it together, each with its own GPU's context current. NCCL refuses two ranks on
// one GPU. Throws an unsupported error where NCCL is not found, an environment error where it
// fails. Collectives can be captured into a launch graph. Sums in 16 bits are NCCL's own;
// reduce_scatter and all_gather need a count that is a multiple of the ranks.
std::unique_ptr<Communicator> make_nccl_communicator(NcclOptions options);

}  // namespace ridgeline
