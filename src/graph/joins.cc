#include "graph/joins.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace ridgeline {

std::vector<uint32_t> find_joins(std::span<const Touched> steps) {
  const auto count = static_cast<uint32_t>(steps.size());
  std::vector<uint32_t> joins(count);
  std::unordered_map<uint32_t, uint32_t> next_read, next_write;  // by storage: the step, if any
  uint32_t next_holder = count;
  const auto found = [&](const std::unordered_map<uint32_t, uint32_t>& next, uint32_t storage) {
    const auto at = next.find(storage);
    return at == next.end() ? count : at->second;
  };
  for (uint32_t step = count; step-- > 0;) {
    const Touched& touched = steps[step];
    uint32_t join = touched.is_collective ? count : step;
    if (touched.is_collective) {
      for (uint32_t storage : touched.writes)
        join = std::min({join, found(next_read, storage), found(next_write, storage)});
      for (uint32_t storage : touched.reads) join = std::min(join, found(next_write, storage));
      if (touched.holds_operand) join = std::min(join, std::exchange(next_holder, step));
      join = std::min(join, count - 1);
    }
    joins[step] = join;
    for (uint32_t storage : touched.reads) next_read[storage] = step;
    for (uint32_t storage : touched.writes) next_write[storage] = step;
  }
  return joins;
}

}  // namespace ridgeline
