// Finds pieces that stand literally in a text, the longest first.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace ridgeline {

class PieceMatcher {
 public:
  struct Entry {
    std::string_view text;  // outlives this
    int32_t id;
  };
  explicit PieceMatcher(std::vector<Entry> entries = {});

  struct Match {
    size_t length = 0;  // 0: there is none
    int32_t id = 0;
  };
  // The longest entry that `text` begins with, of those that `accept` takes.
  template <class Accept>
  Match longest(std::string_view text, const Accept& accept) const;

 private:
  struct Range {
    size_t begin = 0, end = 0;
  };
  // Of entries that have their first `depth` bytes in common: those with `byte` there.
  Range narrowed(Range range, size_t depth, char byte) const;

  std::vector<Entry> entries_;         // in the order of their texts
  std::array<Range, 256> by_first_{};  // nearly all places of a text are done after this
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
