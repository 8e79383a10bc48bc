// Splits sizes into parts.
#pragma once

#include <cstdint>

namespace ridgeline {

inline int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

struct Part {
  int64_t begin, size;
};
// One of `parts` parts that are as even as possible.
inline Part part_of(int64_t size, int64_t which, int64_t parts) {
  const int64_t begin = size * which / parts;
  return {begin, size * (which + 1) / parts - begin};
}

}  // namespace ridgeline
