// The sizes of a product of two matrices.
#pragma once

#include <cstdint>

namespace ridgeline {

struct ProductSize {
  int64_t rows = 0, columns = 0, depth = 0;
};

}  // namespace ridgeline
