// What the modes of the kernel study need of a device: its cache size, and captured launch graphs.
#pragma once

#include <functional>

#include "measure/machine.h"
#include "runtime/device.h"

namespace ridgeline {

// The size of the last-level cache: a GPU's L2, or the largest cache of a CPU.
Bytes last_cache(const DeviceFacts& facts, const MachineFacts& machine);

// Captures the launches of `work` in one launch graph; calling the result replays it. Throws an
// unsupported error if the device has no launch graphs.
std::function<void()> captured(Device& device, const std::function<void()>& work);

}  // namespace ridgeline
