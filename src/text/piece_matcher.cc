#include "text/piece_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/damaged_file.h"
#include "base/printable.h"

namespace ridgeline {

PieceMatcher::PieceMatcher(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::ranges::sort(entries_, {}, &Entry::text);
  const auto twice = std::ranges::adjacent_find(entries_, {}, &Entry::text);
  if (twice != entries_.end())
    throw damaged_file(fmt::format("matches '{}' with two pieces", printable(twice->text, 40)));
  for (size_t i = 0; i < entries_.size(); ++i) {
    Range& range = by_first_[static_cast<unsigned char>(entries_[i].text.front())];
    if (range.end == 0) range.begin = i;
    range.end = i + 1;
  }
}

PieceMatcher::Range PieceMatcher::narrowed(Range range, size_t depth, char byte) const {
  constexpr int kEnded = -1;
  const auto byte_at = [depth](const Entry& entry) {
    return depth < entry.text.size() ? static_cast<unsigned char>(entry.text[depth]) : kEnded;
  };
  const auto wanted = static_cast<int>(static_cast<unsigned char>(byte));
  const std::span<const Entry> all(entries_);
  const auto entries = all.subspan(range.begin, range.end - range.begin);
  const auto first = std::ranges::lower_bound(entries, wanted, {}, byte_at);
  const auto last = std::ranges::upper_bound(entries, wanted, {}, byte_at);
  return {range.begin + static_cast<size_t>(first - entries.begin()),
          range.begin + static_cast<size_t>(last - entries.begin())};
}

}  // namespace ridgeline
