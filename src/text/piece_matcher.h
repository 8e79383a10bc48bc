// Finds the longest piece that a text begins with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ridgeline {

class PieceMatcher {
 public:
  struct Entry {
    std::string_view text;  // must outlive the matcher
    int32_t id;
  };
  explicit PieceMatcher(std::vector<Entry> entries = {});

  struct Match {
    size_t length = 0;  // 0: no match
    int32_t id = 0;
  };
  // The longest entry that `text` begins with and for whose id `accept` returns true.
  template <class Accept>
  Match longest(std::string_view text, const Accept& accept) const;

 private:
  struct Range {
    size_t begin = 0, end = 0;
  };
  // Narrows entries with a common prefix of `depth` bytes to those with `byte` next.
  Range narrowed(Range range, size_t depth, char byte) const;

  std::vector<Entry> entries_;         // sorted by text
  std::array<Range, 256> by_first_{};  // by first byte, which rules out most positions of a text
};

template <class Accept>
PieceMatcher::Match PieceMatcher::longest(std::string_view text, const Accept& accept) const {
  Match best;
  if (text.empty()) return best;
  Range range = by_first_[static_cast<unsigned char>(text.front())];
  for (size_t depth = 1; range.begin < range.end; ++depth) {
    const Entry& shortest = entries_[range.begin];
    if (shortest.text.size() == depth && accept(shortest.id)) best = {depth, shortest.id};
    if (depth == text.size()) break;
    range = narrowed(range, depth, text[depth]);
  }
  return best;
}

}  // namespace ridgeline
