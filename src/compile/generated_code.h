// Which generated functions the kernels of a plan are, under the names that --dump-kernels uses.
#pragma once

#include <string>

#include "plan/plan.h"
#include "runtime/device.h"

namespace ridgeline {

// A line for each text: its function, and the numbers of the kernels that it serves, as in
// explain(). Empty if nothing is generated.
std::string generated_functions(const Plan& plan, const Device& device);

}  // namespace ridgeline
