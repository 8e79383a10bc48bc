// Which generated functions implement the kernels of a plan, under the names in --dump-kernels.
#pragma once

#include <string>

#include "plan/plan.h"
#include "runtime/device.h"

namespace ridgeline {

// One line per text: its function, and the numbers of the kernels that use it, as in explain().
// Empty if nothing is generated.
std::string generated_functions(const Plan& plan, const Device& device);

}  // namespace ridgeline
