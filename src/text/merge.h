// The loop of byte-pair encoding: of all neighbours that can merge, the best pair does, until none
// is left. It takes n log n steps for n symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

namespace ridgeline {

struct Symbol {
  size_t begin = 0, length = 0;  // bytes of the text
  int32_t id = -1;               // below 0: not known yet
  bool frozen = false;           // never merges
};

struct PairMerge {
  double priority;  // the largest merges first; of equals, the leftmost
  int32_t id;
};

// `find(left, right)` gives what two neighbours merge to, as an optional PairMerge. Symbols that
// were merged into the one before them are gone afterwards.
template <class Find>
void merge_symbols(std::vector<Symbol>& symbols, const Find& find) {
  constexpr size_t kNone = SIZE_MAX;
  struct Candidate {
    PairMerge merge;
    size_t left, right, length;
  };
  const auto is_worse = [](const Candidate& a, const Candidate& b) {
    return a.merge.priority < b.merge.priority ||
           (a.merge.priority == b.merge.priority && a.left > b.left);
  };
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(is_worse)> candidates(is_worse);
  struct Links {
    size_t previous, next;
  };
  std::vector<Links> links(symbols.size());
  const auto consider = [&](size_t left, size_t right) {
    if (left == kNone || right == kNone || symbols[left].frozen || symbols[right].frozen) return;
    if (const std::optional<PairMerge> merge = find(symbols[left], symbols[right]))
      candidates.push({*merge, left, right, symbols[left].length + symbols[right].length});
  };
  for (size_t i = 0; i < symbols.size(); ++i) {
    links[i] = {i == 0 ? kNone : i - 1, i + 1 == symbols.size() ? kNone : i + 1};
    if (i > 0) consider(i - 1, i);
  }
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol &left = symbols[best.left], &right = symbols[best.right];
    // One of the two has merged meanwhile.
    if (left.length == 0 || right.length == 0 || left.length + right.length != best.length)
      continue;
    left.length = best.length;
    left.id = best.merge.id;
    right.length = 0;
    const size_t next = links[best.right].next;
    links[best.left].next = next;
    if (next != kNone) links[next].previous = best.left;
    consider(links[best.left].previous, best.left);
    consider(best.left, next);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.length == 0; });
}

}  // namespace ridgeline
