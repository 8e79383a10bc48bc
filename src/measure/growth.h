// Estimates how fast a quantity grows with a size at the largest measured sizes, and up to which
// size its constant part dominates.
//
//   const auto growth = growth_at_end({exactly(1024, 9e6), exactly(4096, 12e6), ...});
//   fmt::print("peak memory grows as {}", in_words({&*growth, 1}, "S"));
//
// One fit over all sizes would average fixed costs and growth, and hold at none of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/statistics.h"

namespace ridgeline {

// `low` to `high` is the interval of the true value: y itself if it was counted, 0 to infinity if
// there are too few samples.
struct Observation {
  double x = 0;
  double y = 0;
  double low = 0;
  double high = 0;
  bool of_runs = false;  // the interval is between runs, not within-run
};
Observation exactly(double x, double y);
Observation median_at(double x, const Statistics& statistics, bool of_runs = false);

// The slope on log-log axes between the largest size and the largest one of at most a quarter of
// it. Over two doublings or more, noise at one size matters less.
struct Growth {
  double exponent = 0;
  double low = 0, high = 0;  // interval from those of both ends; infinite if one end has none
  bool exact = false;        // counted, not measured
  bool of_runs = false;      // interval between runs; else within-run
  double from = 0, to = 0;   // the two sizes
  // The slope still rises by more than kRising beyond both intervals, so the exponent does not
  // extend to larger sizes.
  bool rising = false;
  // The largest size up to which more than half of the quantity is constant. The local slope of
  // a + b x^p is p times the share of the growing part, so this holds where the slope is below
  // half of that at the end, for any a, b and p.
  std::optional<double> fixed_until = {};

  bool has_interval() const;
};
inline constexpr double kEndRange = 4;  // two doublings
inline constexpr double kRising = 0.1;

// The growth of one curve, in which only x varies; nullopt unless two sizes are kEndRange apart.
// Skips values that are not positive and finite; of two at one size the later counts.
std::optional<Growth> growth_at_end(std::span<const Observation> curve);

// "S^1.65 (1.60 to 1.70 within-run), from S 4096 to 16384; up to S 1024 the part that does not grow
// decides", for one curve or several. Empty for none.
std::string in_words(std::span<const Growth> curves, std::string_view variable);

// Returns the constant term of counts that are sums of constant, linear and quadratic terms. Uses
// the fewest terms that fit every value to 0.1 %, fewer than there are values; nullopt if none do.
std::optional<double> fixed_part(std::span<const Observation> curve);

}  // namespace ridgeline
