#include "graph/attention_spec.h"

#include <algorithm>

namespace ridgeline {

KeyRange visible_keys(const AttentionMask& mask, int64_t query, int64_t queries, int64_t keys) {
  const bool bottom_right = mask.alignment == AttentionMask::Alignment::bottom_right;
  const int64_t position = bottom_right ? query + keys - queries : query;
  KeyRange range{0, keys};
  // A window ends at the query's own position, so it hides later keys as well.
  if (mask.causal || mask.window > 0) range.last = std::clamp<int64_t>(position + 1, 0, keys);
  if (mask.window > 0) range.first = std::clamp<int64_t>(position + 1 - mask.window, 0, keys);
  range.first = std::min(range.first, range.last);
  return range;
}

double visible_pairs(const AttentionMask& mask, int64_t queries, int64_t keys) {
  const auto count = static_cast<double>(keys);
  if (!mask.causal && mask.window == 0) return static_cast<double>(queries) * count;
  // Of clamp(x, 0, keys) over all x below an end, and then from a first one for all queries.
  const auto sum_below = [&](int64_t end) {
    if (end <= 0) return 0.0;
    const auto rising = static_cast<double>(std::min(end - 1, keys));
    return rising * (rising + 1) / 2 +
           static_cast<double>(std::max<int64_t>(end - 1 - keys, 0)) * count;
  };
  const auto sum_from = [&](int64_t first) {
    return sum_below(first + queries) - sum_below(first);
  };
  const bool bottom_right = mask.alignment == AttentionMask::Alignment::bottom_right;
  const int64_t first = (bottom_right ? keys - queries : 0) + 1;
  return sum_from(first) - (mask.window > 0 ? sum_from(first - mask.window) : 0);
}

}  // namespace ridgeline
