// Records as one JSON array, raw samples included, for programs that cannot read JSON lines.
#pragma once

#include <span>
#include <string>

#include "measure/record.h"

namespace ridgeline {

std::string records_json(std::span<const Record> records);

}  // namespace ridgeline
