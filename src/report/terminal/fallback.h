// What a row that should have run compiled says where it did not.
#pragma once

#include <string>

#include "measure/record.h"

namespace ridgeline {

// "ran eagerly: no C++ compiler was found; next step: install g++"; empty: nothing fell back.
std::string ran_eagerly(const Record& record);

}  // namespace ridgeline
