// Neighbouring kernels of a plan as one launch on a GPU.
#pragma once

#include <functional>
#include <vector>

#include "kernels/cuda/launch.h"
#include "plan/plan.h"

namespace ridgeline {

// The ways to do it, of which the fastest has to be found. None: the GPU cannot, or should not.
// `view` shows where values lie.
std::vector<CudaLaunch> plan_merged(const Graph& graph, const Plan& plan, const Merge& merge,
                                    const CudaFacts& device,
                                    const std::function<TensorView(Value)>& view);

}  // namespace ridgeline
