// Launches of a node that can be repeated on other memory: planned once, with a list of the
// addresses in their parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

// Where the parameters of a launch hold the address of a tensor, or of a part of it.
struct AddressSlot {
  uint32_t launch = 0;
  uint32_t offset = 0;  // in the parameters
  uint32_t tensor = 0;  // inputs come first, then outputs, then the scratch memory
  uint64_t behind = 0;  // bytes from the beginning of the tensor
};

struct MovableLaunches {
  std::vector<CudaLaunch> launches;
  std::vector<AddressSlot> slots;

  // `addresses`: of every tensor, each equal modulo kAddressUnit to the planned one.
  void move_to(std::span<void* const> addresses);
};

// Planners depend on addresses only modulo this.
inline constexpr uintptr_t kAddressUnit = 16;

using LaunchPlanner = std::function<std::vector<CudaLaunch>(
    std::span<const TensorView> inputs, std::span<const TensorView> outputs, void* scratch)>;

// The launches for tensors at these addresses. Throws an internal error if moved launches would
// differ from newly planned ones.
MovableLaunches plan_movable(std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs, void* scratch,
                             const LaunchPlanner& plan);

}  // namespace ridgeline
