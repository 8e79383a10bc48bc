// What the modes of the kernel study need of a device: an empty cache, and calls in a launch graph.
#pragma once

#include <functional>

#include "measure/machine.h"
#include "runtime/device.h"

namespace ridgeline {

// The last cache before memory: a GPU's L2, or the largest of a CPU.
Bytes last_cache(const DeviceFacts& facts, const MachineFacts& machine);

// A function that overwrites that cache: by a memset on a GPU, which is queued before whatever is
// started next, and by a walk of all threads over a buffer of its size on a CPU.
std::function<void()> cache_flush(Device& device, Bytes cache);

// What `work` starts, captured in one launch graph; calling the result replays it. Throws an
// unsupported error where there are no launch graphs.
std::function<void()> captured(Device& device, const std::function<void()>& work);

}  // namespace ridgeline
