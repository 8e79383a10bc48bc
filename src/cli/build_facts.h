// Which build this is, as recorded beside every figure.
#pragma once

#include "measure/record.h"
#include "runtime/device.h"

namespace ridgeline {

BuildFacts build_facts();

// What every record of this process carries: machine, with the GPU that runs, and build.
Record blank_record(const Device& device);

}  // namespace ridgeline
