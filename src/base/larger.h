// The larger of two numbers as errors and reductions need it.
#pragma once

namespace ridgeline {

// NaN if either is, where std::max depends on the order: a NaN must not pass for a small error.
template <class Number>
constexpr Number larger(Number a, Number b) {
  return a > b || a != a ? a : b;
}

}  // namespace ridgeline
