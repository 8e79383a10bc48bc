// Which form of a product and the kernel behind it runs: by timing both on the device.
#pragma once

#include "plan/take_epilogues.h"
#include "runtime/device.h"

namespace ridgeline {

// For PlanOptions. Both forms run as a whole on memory of their own, where the device tunes or
// remembers; else bytes decide. Empty for devices without epilogues. The device must outlive it.
ChooseEpilogue epilogue_chooser(Device& device);
// Likewise for kernels with a product inside; empty for devices without.
ChooseEpilogue product_kernel_chooser(Device& device);

// All that the times of both forms depend on, as text.
std::string epilogue_key(const Graph& graph, const std::vector<Layout>& layouts,
                         const EpilogueOffer& offer, const EmitOptions& emit);

}  // namespace ridgeline
