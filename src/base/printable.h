// Makes text from files and errors safe to show: one line, plain ASCII, bounded length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ridgeline {

// Control characters and bytes beyond ASCII become \n, \t or \xNN; text longer than `max_length`
// ends in "...".
std::string printable(std::string_view text, size_t max_length = 200);

// ASCII's capital letters become small ones.
std::string lower_case(std::string_view text);

}  // namespace ridgeline
