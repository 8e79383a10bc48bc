// Where work that overlaps a collective has to wait for it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridgeline {

// One step of a schedule or kernel of a plan; storages by Graph::index.
struct Touched {
  std::vector<uint32_t> reads = {}, writes = {};
  bool is_collective = false;
  bool holds_operand = false;  // of a collective: memory that can be released once it is done
};

// By step: the first step that waits for it. For a collective that is the first step that reads or
// writes what it writes, or writes what it reads; if it holds memory, at the latest the next such
// collective, so that at most two operands are held; and always at the latest the last step. Other
// steps, and a collective in the last step, map to themselves.
std::vector<uint32_t> find_joins(std::span<const Touched> steps);

}  // namespace ridgeline
