// Adapts Device::scratch to the interface of the memory account.
#pragma once

#include "cost/memory.h"
#include "runtime/device.h"

namespace ridgeline {

// The device must outlive the function.
inline ScratchOf scratch_of(const Device& device) {
  return [&device](const Node& node, std::span<const TensorType> inputs) {
    return device.scratch(node, inputs);
  };
}

}  // namespace ridgeline
