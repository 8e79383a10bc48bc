// Chooses the form of a product and its following kernel by timing both on the device.
#pragma once

#include "plan/take_epilogues.h"
#include "runtime/device.h"

namespace ridgeline {

// For PlanOptions. Where the device tunes, both forms are timed as a whole on separate memory.
// Without times, measured or cached, the kernels stay separate. Empty for devices without
// epilogues. The device must outlive it.
ChooseEpilogue epilogue_chooser(Device& device);
// Likewise for kernels with a product inside; empty for devices without.
ChooseEpilogue product_kernel_chooser(Device& device);

// A key of everything that the times of both forms depend on.
std::string epilogue_key(const Graph& graph, const std::vector<Layout>& layouts,
                         const EpilogueOffer& offer);

}  // namespace ridgeline
