// Random strided views of a buffer: permuted, sliced, broadcast.
#pragma once

#include <algorithm>
#include <random>

#include "kernels/tensor_view.h"

namespace ridgeline::testing {

class RandomViewMaker {
 public:
  explicit RandomViewMaker(uint64_t seed) : random_(seed) {}

  int64_t below(int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_);
  }

  Shape shape(int rank) {
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 8, 16, 33};
    Shape result;
    for (int axis = 0; axis < rank; ++axis) result.push_back(kSizes[below(8)]);
    return result;
  }

  // A view of shape `wanted` of a buffer at `data`, which must have space_for(wanted) elements.
  TensorView view(void* data, DType dtype, const Shape& wanted) {
    std::vector<int> order;  // from the outermost axis in memory to the innermost
    for (int axis = 0; axis < wanted.rank(); ++axis) order.push_back(axis);
    if (below(2) == 0) std::shuffle(order.begin(), order.end(), random_);
    Strides strides = Dims::filled(wanted.rank(), 0);
    int64_t step = below(6) == 0 ? 2 : 1;
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
      if (below(8) == 0) continue;  // broadcast
      strides[*axis] = step;
      step *= wanted[*axis] + (below(5) == 0 ? 1 : 0);  // a slice leaves a gap
    }
    const int64_t shift = below(3) == 0 ? below(4) : 0;
    return {static_cast<char*>(data) + shift * info(dtype).size, dtype, wanted, strides};
  }
  static int64_t space_for(const Shape& wanted) {
    int64_t space = 2;
    for (int64_t size : wanted) space *= size + 1;
    return space + 4;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace ridgeline::testing
