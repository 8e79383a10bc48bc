// UTF-8 characters, validated as sentencepiece does.
#pragma once

#include <cstddef>
#include <string_view>

namespace ridgeline {

// U+FFFD replaces bytes that are not UTF-8, U+2581 a space in pieces.
inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";
inline constexpr std::string_view kSpaceSymbol = "\xe2\x96\x81";

// Returns the length in bytes of a character by its first byte; 0 if no character begins with it.
size_t character_length(char first);

// Returns the length in bytes of the character that `text` begins with; 0 if it is invalid:
// truncated, overlong, a surrogate, or beyond U+10FFFF.
size_t valid_character(std::string_view text);

bool is_valid_utf8(std::string_view text);

// Whether `text`, which must not be empty, may be the beginning of one longer character.
bool is_unfinished_character(std::string_view text);

}  // namespace ridgeline
