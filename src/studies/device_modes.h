// What the modes of the kernel study need of a device: the size of its cache, and calls in a launch
// graph.
#pragma once

#include <functional>

#include "measure/machine.h"
#include "runtime/device.h"

namespace ridgeline {

// The last cache before memory: a GPU's L2, or the largest of a CPU.
Bytes last_cache(const DeviceFacts& facts, const MachineFacts& machine);

// What `work` starts, captured in one launch graph; calling the result replays it. Throws an
// unsupported error where there are no launch graphs.
std::function<void()> captured(Device& device, const std::function<void()>& work);

}  // namespace ridgeline
