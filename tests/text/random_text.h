// Texts as people and attackers write them: words, code with indentation, tags, other scripts,
// emoji, combining marks, control characters, bytes that are no UTF-8.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

class RandomText {
 public:
  explicit RandomText(uint64_t seed) : random_(seed) {}

  std::string next(bool valid = false) {
    std::string text;
    for (size_t left = below(14); left > 0; --left) text += part(valid);
    return text;
  }
  std::vector<std::string> many(size_t count, bool valid = false) {
    std::vector<std::string> texts(count);
    for (std::string& text : texts) text = next(valid);
    return texts;
  }
  // Lines to train a model on.
  std::string corpus(size_t lines) {
    std::string text;
    for (; lines > 0; --lines) {
      for (size_t left = 4 + below(12); left > 0; --left)
        (text += pick(kWords)) += below(4) == 0 ? pick(kSigns) : " ";
      text += '\n';
    }
    return text;
  }

 private:
  size_t below(size_t count) { return random_() % count; }
  template <class List>
  std::string pick(const List& list) {
    return std::string(list[below(std::size(list))]);
  }
  std::string part(bool valid) {
    switch (below(valid ? 10 : 12)) {
      case 0:
      case 1:
        return pick(kWords);
      case 2:
        return pick(kWords) + " ";
      case 3:
        return std::string(below(40), ' ');
      case 4:
        return std::string(1 + below(5), below(3) == 0 ? '\t' : '\n');
      case 5:
        return pick(kPieces);
      case 6:
        return pick(kSigns);
      case 7:
        return std::string(1, static_cast<char>(below(128)));
      case 8:
        return character(below(0x3000));
      case 9:
        return character(below(0x110000));
      case 10:
        return below(2) ? pick(kInvalid) : std::string(1, static_cast<char>(below(256)));
      default:
        return character(below(0x110000)).substr(0, 1 + below(3));
    }
  }
  // Surrogates become U+FFFD.
  static std::string character(size_t code) {
    if (code >= 0xd800 && code < 0xe000) code = 0xfffd;
    const auto tail = [code](int shift) {
      return static_cast<char>(0x80 | (code >> shift & 0x3f));
    };
    const auto lead = [code](int mark, int shift) {
      return static_cast<char>(mark | code >> shift);
    };
    if (code < 0x80) return {static_cast<char>(code)};
    if (code < 0x800) return {lead(0xc0, 6), tail(0)};
    if (code < 0x10000) return {lead(0xe0, 12), tail(6), tail(0)};
    return {lead(0xf0, 18), tail(12), tail(6), tail(0)};
  }

  static constexpr std::string_view kWords[] = {
      "the",    "quick",   "return",    "def",     "for",        "i",     "in",     "range",
      "self",   "int32_t", "std",       "vector",  "template",   "Größe", "straße", "naïve",
      "привет", "мир",     "世界",      "你好",    "こんにちは", "안녕",  "مرحبا",  "नमस्ते",
      "abc",    "abcabc",  "aaaa",      "bababab", "hello",      "world", "1234",   "3.14",
      "x",      "y",       "tokenizer", "token",   "tokens",     "an",    "and",    "other"};
  static constexpr std::string_view kSigns[] = {". ", ", ", "(",  ")", "::", " = ", "+", "/", "\"",
                                                "'",  "; ", " {", "}", "▁",  "</",  "&", "#", "-"};
  static constexpr std::string_view kPieces[] = {"<code>",
                                                 "</code>",
                                                 "<i>",
                                                 "</i>",
                                                 "<s>",
                                                 "<unk>",
                                                 "<bos>",
                                                 "<eos>",
                                                 "<pad>",
                                                 "<mask>",
                                                 "<start_of_turn>",
                                                 "<end_of_turn>",
                                                 "<0x41>",
                                                 "▁▁",
                                                 "▁▁▁",
                                                 "😀",
                                                 "👩‍👩‍👧",
                                                 "🇩🇪",
                                                 "e\u0301",
                                                 "\ufffd",
                                                 "\u00a0",
                                                 "\u2028",
                                                 "\ufeff",
                                                 "<code",
                                                 "a b",
                                                 "ab "};
  // Surrogates, more bytes than needed, beyond U+10FFFF.
  static constexpr std::string_view kInvalid[] = {
      "\xed\xa0\x80",     "\xed\xbf\xbf",        "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
      "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"};

  std::mt19937_64 random_;
};

}  // namespace ridgeline
