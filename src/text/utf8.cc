#include "text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace ridgeline {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

}  // namespace

size_t character_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if ((byte & 0xe0) == 0xc0) return 2;
  if ((byte & 0xf0) == 0xe0) return 3;
  if ((byte & 0xf8) == 0xf0) return 4;
  return 0;
}

size_t valid_character(std::string_view text) {
  if (text.empty()) return 0;
  const size_t length = character_length(text.front());
  if (length <= 1) return length;
  if (length > text.size()) return 0;
  uint32_t code = static_cast<unsigned char>(text.front()) & (0x7fu >> length);
  for (const char byte : text.substr(1, length - 1)) {
    if (!is_continuation(byte)) return 0;
    code = code << 6 | (static_cast<unsigned char>(byte) & 0x3fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return code >= kSmallest[length] && code <= 0x10ffff && !is_surrogate ? length : 0;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = valid_character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool is_unfinished_character(std::string_view text) {
  return text.size() < character_length(text.front()) &&
         std::all_of(text.begin() + 1, text.end(), is_continuation);
}

}  // namespace ridgeline
