// Colours of statuses and verdicts on terminals.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace ridgeline {

// Returns whether `stream` is a terminal and colour is not disabled by NO_COLOR (not empty) or TERM
// (empty or "dumb").
bool shows_colour(std::FILE* stream);

enum class Tone { plain, good, bad, caution, faint };

// Returns the tone of a status or verdict, such as "OOM" or "FASTER"; plain for any other word.
Tone tone_of(std::string_view word);

// Returns the text between the escape codes of its tone, whatever the output is.
std::string painted(Tone tone, std::string_view text);

}  // namespace ridgeline
