// Reports in full why rows of peers and user kernels failed, as tables only show one word.
#pragma once

#include <span>
#include <string_view>

#include "measure/record.h"

namespace ridgeline {

// Prints each reason once, on stderr. `own_entry`: the implementation name of the user's kernel.
void say_failures(std::span<const Record> records, std::string_view own_entry = {});

}  // namespace ridgeline
