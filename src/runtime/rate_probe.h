// The probes of the roofline: synthetic work that is timed for its rate.
#pragma once

#include <functional>
#include <optional>

#include "kernels/tensor_view.h"

namespace ridgeline {

// What one sample runs, with its FLOPs and bytes.
struct RateProbe {
  std::function<void()> start;
  double flops = 0;
  double bytes = 0;
};

// Register-only arithmetic.
struct ArithmeticProbe {
  const char* name;  // in records: "fma", "dots", "amx"
  std::function<RateProbe()> prepare;
};

// to = a, or to = a + 3 b with `b`; a read probe reads `a` alone. All are fp32, contiguous, of one
// size, and outlive the probe.
struct StreamArrays {
  TensorView a, to;
  std::optional<TensorView> b = {};
  bool in_cache = false;  // all fit a cache, so that one pass is shorter than a launch
};

// One way to move arrays: by our own loop or kernel, by non-temporal stores, or by the system's
// copy.
struct StreamProbe {
  const char* suffix;  // of the stream's name in records: "", "-streaming", "-memcpy", "-driver"
  bool copies_only;
  std::function<RateProbe(const StreamArrays& arrays)> prepare;
  std::function<RateProbe(const StreamArrays& arrays)> read = {};  // empty: not available
};

}  // namespace ridgeline
