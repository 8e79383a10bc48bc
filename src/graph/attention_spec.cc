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

}  // namespace ridgeline
