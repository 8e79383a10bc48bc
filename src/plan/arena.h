// Offsets in one piece of memory for blocks that live for a while: those that live at the same time
// do not overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace ridgeline {

struct ArenaBlock {
  Bytes bytes;
  uint32_t first = 0;  // moments between which it lives, both included
  uint32_t last = 0;
  int64_t offset = 0;  // filled in
};

inline constexpr int64_t kArenaAlignment = 256;

// Largest first, each into the smallest gap that holds it. Gives the size of the whole.
Bytes place_blocks(std::vector<ArenaBlock>& blocks);

// The least that any placement needs: the most that lives at one moment.
Bytes most_alive(const std::vector<ArenaBlock>& blocks);

}  // namespace ridgeline
