// How far two sets of figures lie apart, by ranks: no distribution is assumed, outliers weigh
// little.
//
//   Shift shift = paired_shift(log_ratios, 0.99);
//   fmt::print("{:+.1f} % [{:+.1f}, {:+.1f}]\n", ...);
#pragma once

#include <span>
#include <vector>

namespace ridgeline {

// An estimate and the interval that holds the true shift with the confidence asked for. Too few
// figures cannot promise it: then the interval is infinite.
struct Shift {
  double estimate = 0;
  double low = 0;
  double high = 0;

  bool operator==(const Shift&) const = default;
};

// Of differences, each of one pair and each as likely above the true shift as below it by the same:
// Hodges and Lehmann's estimate, the median of all averages of two, and the interval of Wilcoxon's
// signed ranks. At most kMaxPairs, whose exact null distribution fits into a double.
inline constexpr int kMaxPairs = 400;
Shift paired_shift(std::span<const double> differences, double confidence);

// Of times, so that shifts are factors; one below the clock's step counts as a billionth.
std::vector<double> logarithms(std::span<const double> times);

// Each interval of `rows` together: all hold with 95 %, and each with at least 99 %, at each of
// several looks at figures that keep coming in.
double confidence_for(size_t rows, int looks = 1);

double median_of(std::vector<double> values);  // of at least one

}  // namespace ridgeline
