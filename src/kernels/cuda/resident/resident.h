// A resident kernel as a launch: its tables, and how shared memory is cut.
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
  CudaLaunch launch;  // without its argument
  std::vector<ResidentItem> items;
  std::vector<ResidentVector> vectors;  // kResidentSides of each item
  int64_t words = 0;                    // of 8 bytes, that have to be 0 before the first run
};

// `address` gives the memory of inputs and of values outside of the kernel. Nothing where the GPU
// has no room for it, or is no Hopper; `why` then says so.
std::optional<CudaResident> plan_resident(const Graph& graph, const Plan& plan,
                                          const ResidentPlan& resident, const CudaFacts& facts,
                                          const std::function<void*(Value)>& address,
                                          std::string& why);

}  // namespace ridgeline
