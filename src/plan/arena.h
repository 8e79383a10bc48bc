// Assigns offsets in one allocation to blocks with lifetimes: blocks that are live at the same time
// do not overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace ridgeline {

struct ArenaBlock {
  Bytes bytes;
  uint32_t first = 0;  // its lifetime, both ends included
  uint32_t last = 0;
  int64_t offset = 0;  // filled in
};

inline constexpr int64_t kArenaAlignment = 256;

// Largest first, each into the smallest gap that fits. Returns the size of the arena.
Bytes place_blocks(std::vector<ArenaBlock>& blocks);

// A lower bound for any placement: the most bytes that are live at once.
Bytes most_alive(const std::vector<ArenaBlock>& blocks);

}  // namespace ridgeline
