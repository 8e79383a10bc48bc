// Colour on terminals: sparing, and off where NO_COLOR or the terminal says so.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace ridgeline {

// Whether `stream` is a terminal that shows colours, and nobody asked for none (NO_COLOR not empty,
// TERM=dumb).
bool shows_colour(std::FILE* stream);

enum class Tone { plain, good, bad, caution, faint };

// The tone of a word that is a status or a verdict, such as "OOM", "wrong" or "FASTER"; of
// everything else plain.
Tone tone_of(std::string_view word);

// The text in its colour, whatever it is shown on.
std::string painted(Tone tone, std::string_view text);

}  // namespace ridgeline
