// Characters of UTF-8, judged as sentencepiece judges them.
#pragma once

#include <cstddef>
#include <string_view>

namespace ridgeline {

// U+FFFD stands for bytes that are no UTF-8, U+2581 for a space in pieces.
inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";
inline constexpr std::string_view kSpaceSymbol = "\xe2\x96\x81";

// The bytes that a character takes by its first one; 0: none begins so.
size_t character_length(char first);

// The bytes of the character that `text` begins with; 0 where there is no valid one: cut off,
// longer than needed, a surrogate, beyond U+10FFFF.
size_t valid_character(std::string_view text);

bool is_valid_utf8(std::string_view text);

// Whether bytes to come can make a valid character of `text`, which is not empty.
bool is_unfinished_character(std::string_view text);

}  // namespace ridgeline
