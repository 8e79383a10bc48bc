#include "base/sort_by.h"

#include <algorithm>
#include <numeric>

namespace ridgeline {

std::vector<size_t> stable_order(size_t count,
                                 const std::function<bool(size_t, size_t)>& is_before) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return is_before(a, b); });
  return order;
}

}  // namespace ridgeline
