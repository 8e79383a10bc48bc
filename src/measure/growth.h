// How fast a quantity grows with a size at the end of what was measured, and up to where the part
// of it that does not grow decides.
//
//   const auto growth = growth_at_end({exactly(1024, 9e6), exactly(4096, 12e6), ...});
//   fmt::print("peak memory grows as {}", in_words({&*growth, 1}, "S"));
//
// One fit over all sizes would be an average of fixed costs and growth that holds nowhere.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/statistics.h"

namespace ridgeline {

// `low` to `high` is where the true value lies: y itself if it was counted, 0 to infinity if there
// are too few samples to tell.
struct Observation {
  double x = 0;
  double y = 0;
  double low = 0;
  double high = 0;
  bool of_runs = false;  // the interval is of the medians of several runs, not of samples
};
Observation exactly(double x, double y);
Observation median_at(double x, const Statistics& statistics, bool of_runs = false);

// The slope on logarithmic axes between two sizes, the largest and the next at most a quarter of
// it: over two doublings or more, one noisy size counts less.
struct Growth {
  double exponent = 0;
  double low = 0, high = 0;  // that the intervals of both ends allow; infinite: one has none
  bool exact = false;        // counted, not measured
  bool of_runs = false;      // between runs; else within one
  double from = 0, to = 0;   // the two sizes
  // The slope is still rising by more than kRising beyond both intervals: it holds for no more
  // than these sizes.
  bool rising = false;
  // The largest size up to which more than half of the quantity does not grow. In a + b x^p the
  // local slope is p times the share of the growing part, so it is there where the slope is below
  // half of that at the end, whatever a, b and p are.
  std::optional<double> fixed_until = {};

  bool has_interval() const;
};
inline constexpr double kEndRange = 4;  // two doublings
inline constexpr double kRising = 0.1;

// Of one curve: all else is equal. Empty without two sizes kEndRange apart. Values that are not
// positive and finite are left out; of two at one size the later counts.
std::optional<Growth> growth_at_end(std::span<const Observation> curve);

// "S^1.65 (1.60 to 1.70 within-run), from S 4096 to 16384; up to S 1024 the part that does not grow
// decides", of one curve or of several. Empty for none.
std::string in_words(std::span<const Growth> curves, std::string_view variable);

// The part that does not grow in counts that are sums of a constant, a linear and a quadratic term:
// that of the fewest such terms that explain every value to 0.1 %, with a value to spare. Empty:
// none does, so nothing is known.
std::optional<double> fixed_part(std::span<const Observation> curve);

}  // namespace ridgeline
