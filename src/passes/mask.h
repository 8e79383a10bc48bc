// Recognises masks that are comparisons of positions: which keys each query may see.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace ridgeline {

// low <= key - query <= high; a missing bound is no limit.
struct Band {
  std::optional<int64_t> low;
  std::optional<int64_t> high;
};

// The band in which `condition` holds, if it compares sums and differences of iotas along the last
// two axes (queries, keys) and constants. None for anything else.
std::optional<Band> band_where(const Graph& graph, Value condition, int64_t queries, int64_t keys);

// The mask that shows exactly the keys in `band` of `queries` x `keys` scores; else why none
// exists.
struct MaskChoice {
  AttentionMask mask;
  std::string refusal;
  bool blind = false;  // refused because a query would see no key
};
MaskChoice mask_of(const Band& band, int64_t queries, int64_t keys);

}  // namespace ridgeline
