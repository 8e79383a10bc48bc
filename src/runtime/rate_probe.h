// The probes of the roofline: work that solves no problem and is timed for its rate alone.
#pragma once

#include <functional>
#include <optional>

#include "kernels/tensor_view.h"

namespace ridgeline {

// What one sample runs, and how much work that is.
struct RateProbe {
  std::function<void()> start;
  double flops = 0;
  double bytes = 0;
};

// Arithmetic on registers alone.
struct ArithmeticProbe {
  const char* name;  // in records: "fma", "dots", "amx"
  std::function<RateProbe()> prepare;
};

// to = a, or to = a + 3 b with `b`, or, of a probe that reads, `a` alone: fp32, contiguous, all of
// one size. They outlive the probe.
struct StreamArrays {
  TensorView a, to;
  std::optional<TensorView> b = {};
  bool in_cache = false;  // a cache holds them all, so that one pass is shorter than a launch
};

// One way to move arrays: by our own loop or kernel, by stores that do not read the line first, or
// by the copy that the system brings.
struct StreamProbe {
  const char* suffix;  // of the stream's name in records: "", "-streaming", "-memcpy", "-driver"
  bool copies_only;
  std::function<RateProbe(const StreamArrays& arrays)> prepare;
  std::function<RateProbe(const StreamArrays& arrays)> read = {};  // empty: it has no such loop
};

}  // namespace ridgeline
