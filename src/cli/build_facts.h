// Facts of this build, which every record contains.
#pragma once

#include "measure/record.h"
#include "runtime/device.h"

namespace ridgeline {

BuildFacts build_facts();

// A record with the facts that all records of this process share: machine, GPU in use, and build.
Record blank_record(const Device& device);

}  // namespace ridgeline
