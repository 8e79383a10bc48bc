// Which build this is, as recorded beside every figure.
#pragma once

#include "measure/record.h"

namespace ridgeline {

BuildFacts build_facts();

// What every record of this process carries: machine and build.
Record blank_record();

}  // namespace ridgeline
