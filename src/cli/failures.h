// Why rows of others have no figures, in full: tables have room for a word only.
#pragma once

#include <span>
#include <string_view>

#include "measure/record.h"

namespace ridgeline {

// On stderr, each reason once: rows that peers or the user's own kernel (by its entry) ran.
void say_failures(std::span<const Record> records, std::string_view own_entry = {});

}  // namespace ridgeline
