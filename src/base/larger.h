// A maximum that propagates NaN.
#pragma once

namespace ridgeline {

// Returns NaN if either is NaN, unlike std::max, so that a NaN cannot pass for a small error.
template <class Number>
constexpr Number larger(Number a, Number b) {
  return a > b || a != a ? a : b;
}

}  // namespace ridgeline
