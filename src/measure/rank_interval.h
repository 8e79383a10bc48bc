// Estimates a shift by ranks, which is robust to outliers and assumes no particular distribution.
//
//   Shift shift = paired_shift(log_ratios, 0.99);
//   fmt::print("{:+.1f} % [{:+.1f}, {:+.1f}]\n", ...);
#pragma once

#include <span>
#include <vector>

namespace ridgeline {

// An estimate with its confidence interval, which is infinite if there are too few values for the
// requested confidence.
struct Shift {
  double estimate = 0;
  double low = 0;
  double high = 0;

  bool operator==(const Shift&) const = default;
};

// The Hodges-Lehmann estimate (the median of all averages of two) of paired differences, which are
// assumed symmetric around the true shift, and the interval of Wilcoxon's signed ranks. Takes at
// most kMaxPairs differences, whose exact null distribution fits into a double.
inline constexpr int kMaxPairs = 400;
Shift paired_shift(std::span<const double> differences, double confidence);

// The logarithm of a time, whose shifts are factors. Times below a nanosecond, such as 0 from a
// coarse clock, count as a nanosecond.
double log_ms(double ms);

// Returns the confidence of each interval such that all `rows` hold jointly with 95 % and each with
// at least 99 %, corrected for `looks` interim analyses of growing data.
double confidence_for(size_t rows, int looks = 1);

// Of at least one value.
double median_of(std::vector<double> values);
double mean_of(std::span<const double> values);
double squared_deviations(std::span<const double> values);  // from their mean, summed

}  // namespace ridgeline
