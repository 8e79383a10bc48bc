// A resident kernel as a launch: its tables, and the layout of its shared memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/params.h"
#include "plan/resident.h"

namespace ridgeline {

struct CudaResident {
  CudaLaunch launch;  // without its parameters
  std::vector<ResidentItem> items;
  std::vector<ResidentVector> vectors;  // kResidentSides for each item
  int64_t words = 0;                    // of 8 bytes, zero before the first run
};

// `address` returns the memory of inputs and of values outside the kernel. Returns nullopt if the
// kernel does not fit the GPU, or the GPU is not Hopper; `why` then says so.
std::optional<CudaResident> plan_resident(const Graph& graph, const Plan& plan,
                                          const ResidentPlan& resident, const CudaFacts& facts,
                                          const std::function<void*(Value)>& address,
                                          std::string& why);

}  // namespace ridgeline
