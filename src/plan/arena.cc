#include "plan/arena.h"

#include <algorithm>
#include <numeric>

namespace ridgeline {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace

Bytes place_blocks(std::vector<ArenaBlock>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<const ArenaBlock*> placed;  // by offset
  int64_t end_of_all = 0;
  for (size_t index : order) {
    ArenaBlock& block = blocks[index];
    const int64_t size = aligned(block.bytes.count);
    int64_t best = -1, best_gap = 0, end = 0;
    for (const ArenaBlock* other : placed) {
      if (other->last < block.first || other->first > block.last) continue;
      const int64_t gap = other->offset - end;
      if (gap >= size && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, other->offset + aligned(other->bytes.count));
    }
    block.offset = best >= 0 ? best : end;
    end_of_all = std::max(end_of_all, block.offset + size);
    const auto at = std::upper_bound(
        placed.begin(), placed.end(), &block,
        [](const ArenaBlock* a, const ArenaBlock* b) { return a->offset < b->offset; });
    placed.insert(at, &block);
  }
  return {end_of_all};
}

Bytes most_alive(const std::vector<ArenaBlock>& blocks) {
  std::vector<std::pair<uint64_t, int64_t>> changes;  // ends come after what begins at their moment
  for (const ArenaBlock& block : blocks) {
    changes.emplace_back(uint64_t{block.first} * 2, aligned(block.bytes.count));
    changes.emplace_back(uint64_t{block.last} * 2 + 1, -aligned(block.bytes.count));
  }
  std::sort(changes.begin(), changes.end());
  int64_t alive = 0, most = 0;
  for (const auto& [moment, change] : changes) most = std::max(most, alive += change);
  return {most};
}

}  // namespace ridgeline
