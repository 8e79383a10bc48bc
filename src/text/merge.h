// The loop of byte-pair encoding: merges the best adjacent pair until none can merge, in
// O(n log n) for n symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

namespace ridgeline {

struct Symbol {
  size_t begin = 0, length = 0;  // in bytes of the text
  int32_t id = -1;               // negative: not known yet
  bool frozen = false;           // never merges
};

struct PairMerge {
  double priority;  // the highest merges first; of equal ones, the leftmost
  int32_t id;
};

// `find(left, right)` returns what two adjacent symbols merge to, as an optional PairMerge. Removes
// symbols that merged into the one before them.
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
    // Skip outdated candidates: one of the two symbols has merged since.
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
