// Where the work that runs beside a collective has to wait for it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridgeline {

// One step of a schedule or kernel of a plan; storages by Graph::index.
struct Touched {
  std::vector<uint32_t> reads = {}, writes = {};
  bool is_collective = false;
  bool holds_operand = false;  // of a collective: memory that could be given back once it is done
};

// By step: the first one that waits for it. That is the first which reads or writes what a
// collective writes, or writes what it reads; for one that holds memory at the latest the next of
// them, so that no more than two operands wait; and for all the last step. A step that is no
// collective, and a collective in the last step, wait for themselves.
std::vector<uint32_t> find_joins(std::span<const Touched> steps);

}  // namespace ridgeline
