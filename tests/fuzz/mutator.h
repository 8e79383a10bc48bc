// Makes hostile inputs from good ones. The same seed and number always make the same input, so that
// a finding can be made again.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridgeline {

class Mutator {
 public:
  // `words` are what the format is made of: names of fields, flags.
  Mutator(uint64_t seed, std::vector<std::string> seeds, std::vector<std::string> words)
      : seed_(seed), seeds_(std::move(seeds)), words_(std::move(words)) {}

  std::string make(uint64_t number);

 private:
  using Change = void (Mutator::*)(std::string&);
  static constexpr size_t kMostBytes = size_t{1} << 20;

  // splitmix64
  uint64_t random() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t count) { return count == 0 ? 0 : random() % count; }
  template <class List>
  const auto& pick(const List& list) {
    return list[below(std::size(list))];
  }

  struct Span {
    size_t begin, length;
  };
  Span some(const std::string& text, uint64_t most = 64) {
    const size_t begin = below(text.size() + 1);
    return {begin, std::min<size_t>(below(most + 1), text.size() - begin)};
  }
  // The first character from a random place on that `is` accepts; the end: there is none.
  template <class Is>
  size_t find_from(const std::string& text, const Is& is) {
    const auto from = text.begin() + static_cast<std::ptrdiff_t>(below(text.size() + 1));
    return static_cast<size_t>(std::find_if(from, text.end(), is) - text.begin());
  }

  void change_number(std::string& text) {
    const auto is_number = [](char c) { return (c >= '0' && c <= '9') || c == '-'; };
    const size_t begin = find_from(text, is_number);
    const size_t end = std::min(text.find_first_not_of("0123456789.eE+-", begin), text.size());
    if (begin < end) text.replace(begin, end - begin, pick(kNumbers));
  }
  void change_value(std::string& text) {
    const size_t begin = find_from(text, [](char c) { return c == ':' || c == ',' || c == '['; });
    if (begin >= text.size()) return;
    const size_t end = std::min(text.find_first_of(",]}\n", begin + 1), text.size());
    text.replace(begin + 1, end - begin - 1, pick(kValues));
  }
  void change_byte(std::string& text) {
    if (!text.empty()) text[below(text.size())] = static_cast<char>(random());
  }
  void flip_bit(std::string& text) {
    if (!text.empty()) text[below(text.size())] ^= static_cast<char>(1u << below(8));
  }
  // Binary formats hold lengths and offsets of 2, 4 and 8 bytes, in either order.
  void change_integer(std::string& text) {
    static constexpr std::array<uint64_t, 9> kIntegers = {
        0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff};
    const size_t bytes = size_t{2} << below(3);
    if (text.size() < bytes) return;
    const size_t at = below(text.size() - bytes + 1);
    const uint64_t value = pick(kIntegers);
    const bool reversed = below(2) == 0;
    for (size_t i = 0; i < bytes; ++i)
      text[at + (reversed ? bytes - 1 - i : i)] = static_cast<char>(value >> (8 * i));
  }
  void remove(std::string& text) {
    const Span span = some(text);
    text.erase(span.begin, span.length);
  }
  void repeat(std::string& text) {
    const Span span = some(text);
    const std::string part = text.substr(span.begin, span.length);
    for (uint64_t left = 1 + below(8); left > 0; --left) text.insert(span.begin, part);
  }
  void move(std::string& text) {
    const Span span = some(text);
    const std::string part = text.substr(span.begin, span.length);
    text.erase(span.begin, span.length);
    text.insert(below(text.size() + 1), part);
  }
  void cut_off(std::string& text) { text.resize(below(text.size() + 1)); }
  void splice(std::string& text) {
    const std::string& other = pick(seeds_);
    text.resize(below(text.size() + 1));
    text += other.substr(below(other.size() + 1));
  }
  void insert_word(std::string& text) {
    if (!words_.empty()) text.insert(below(text.size() + 1), pick(words_));
  }
  void insert_bytes(std::string& text) {
    std::string bytes(1 + below(16), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    text.insert(below(text.size() + 1), bytes);
  }
  void nest(std::string& text) {
    static constexpr std::string_view kOpen[] = {"[", "{\"a\":", "("};
    const std::string_view open = pick(kOpen);
    std::string deep;
    for (uint64_t left = below(400); left > 0; --left) deep += open;
    text.insert(below(text.size() + 1), deep);
  }

  static constexpr std::string_view kNumbers[] = {"0",
                                                  "-0",
                                                  "1",
                                                  "-1",
                                                  "0.1",
                                                  "1e308",
                                                  "-1e308",
                                                  "1e-320",
                                                  "1e999",
                                                  "NaN",
                                                  "Infinity",
                                                  "2147483647",
                                                  "2147483648",
                                                  "-2147483649",
                                                  "4294967296",
                                                  "9007199254740993",
                                                  "9223372036854775807",
                                                  "9223372036854775808",
                                                  "-9223372036854775808",
                                                  "18446744073709551615",
                                                  "99999999999999999999999",
                                                  "0x10",
                                                  "1e18",
                                                  "4611686018427387904"};
  static constexpr std::string_view kValues[] = {
      "null",        "true",        "false",    "0",
      "-1",          "1e308",       "\"\"",     "\"x\"",
      "[]",          "{}",          "[[]]",     "{\"a\":{}}",
      "\"\\u0000\"", "\"\\ud800\"", "\"\xff\"", "9223372036854775807",
      "[1,2,3]"};
  // What keeps the shape stands twice: most findings lie behind it.
  static constexpr Change kChanges[] = {
      &Mutator::change_number,  &Mutator::change_number, &Mutator::change_value,
      &Mutator::change_value,   &Mutator::change_byte,   &Mutator::flip_bit,
      &Mutator::change_integer, &Mutator::remove,        &Mutator::repeat,
      &Mutator::move,           &Mutator::cut_off,       &Mutator::splice,
      &Mutator::insert_word,    &Mutator::insert_bytes,  &Mutator::nest};

  uint64_t seed_;
  std::vector<std::string> seeds_, words_;
  uint64_t state_ = 0;
};

inline std::string Mutator::make(uint64_t number) {
  state_ = seed_ * 0x9e3779b97f4a7c15 + number;
  std::string text = pick(seeds_);
  // Few changes reach deep into a parser, many look at its front.
  for (uint64_t left = 1 + below(4); left > 0; --left) (this->*pick(kChanges))(text);
  if (text.size() > kMostBytes) text.resize(kMostBytes);
  return text;
}

}  // namespace ridgeline
