#include "text/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace ridgeline {
namespace {

// Python's whitespace, which the template's trim removes.
bool is_whitespace(std::string_view character) {
  if (character.size() == 1) {
    const char c = character.front();
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
  }
  // U+2000 to U+200A
  if (character.starts_with("\xe2\x80") && character[2] <= '\x8a') return true;
  constexpr std::string_view kOthers[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80",
                                          "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf",
                                          "\xe2\x81\x9f", "\xe3\x80\x80"};
  return std::ranges::find(kOthers, character) != std::end(kOthers);
}

std::string_view trimmed(std::string_view text) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(valid_character(text.substr(at)), 1);
    if (!is_whitespace(text.substr(at, length))) {
      begin = std::min(begin, at);
      end = at + length;
    }
    at += length;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

int32_t required(std::optional<int32_t> id, std::string_view name) {
  if (id) return *id;
  throw Error(ErrorKind::unsupported, fmt::format("the tokenizer has no piece '{}'", name),
              "the model was not trained to chat; give it plain text");
}

}  // namespace

std::vector<int32_t> chat_prompt(const Tokenizer& tokenizer, std::string_view text) {
  const int32_t bos = required(tokenizer.bos(), "<bos>");
  const int32_t start = required(tokenizer.start_of_turn(), kStartOfTurn);
  const int32_t end = required(tokenizer.end_of_turn(), kEndOfTurn);
  std::vector<int32_t> ids = {bos, start};
  const auto add = [&](const std::string& part) {
    const std::vector<int32_t> more = tokenizer.encode(part, SpecialPieces::as_text);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  add("user\n" + std::string(trimmed(text)));
  ids.push_back(end);
  add("\n");
  ids.push_back(start);
  add("model\n");
  return ids;
}

}  // namespace ridgeline
