// Which build this is, as recorded beside every figure.
#pragma once

#include "measure/record.h"

namespace ridgeline {

BuildFacts build_facts();

}  // namespace ridgeline
