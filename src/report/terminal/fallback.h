// Why a row that should have run compiled ran eagerly.
#pragma once

#include <string>

#include "measure/record.h"

namespace ridgeline {

// Returns "ran eagerly: no C++ compiler was found; next step: install g++", or an empty string if
// nothing fell back.
std::string ran_eagerly(const Record& record);

}  // namespace ridgeline
