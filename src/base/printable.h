// Makes text from files and errors safe to print: one line, plain ASCII, bounded length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ridgeline {

// Escapes control characters and bytes beyond ASCII as \n, \t or \xNN, and truncates text longer
// than `max_length`, which then ends in "...".
std::string printable(std::string_view text, size_t max_length = 200);

// Converts ASCII letters only.
std::string lower_case(std::string_view text);

}  // namespace ridgeline
