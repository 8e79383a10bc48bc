#include "kernels/cuda/planning.h"

namespace ridgeline {

const char* index_name(int64_t count) {
  return count < (int64_t{1} << 31) ? "unsigned" : "unsigned long long";
}

void write_sizes(const Walk& walk, int64_t pack, unsigned long long (&sizes)[kMaxAxes]) {
  const int last = walk.shape.rank() - 1;
  for (int axis = 0; axis < last; ++axis)
    sizes[axis] = static_cast<unsigned long long>(walk.shape[axis]);
  sizes[last] = static_cast<unsigned long long>(divide_up(walk.shape[last], pack));
}

void write_steps(const Strides& strides, int64_t pack, long long (&steps)[kMaxAxes]) {
  const int last = strides.rank() - 1;
  for (int axis = 0; axis < last; ++axis) steps[axis] = strides[axis];
  steps[last] = strides[last] * pack;
}

int64_t next_power_of_two(int64_t value) {
  int64_t power = 1;
  while (power < value) power *= 2;
  return power;
}

}  // namespace ridgeline
