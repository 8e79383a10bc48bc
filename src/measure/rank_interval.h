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

// Of two runs of figures, in the order measured, `next` less `base`: the median of all pairwise
// differences and the interval of Wilcoxon's rank sums. More than kMaxBatches a side are put
// together beforehand: the null distribution of so many is exact in whole numbers.
inline constexpr size_t kMaxBatches = 24;
Shift unpaired_shift(std::span<const double> base, std::span<const double> next, double confidence);

// Each interval of `rows` together: all hold with 95 %, and each with at least 99 %, at each of
// several looks at figures that keep coming in.
double confidence_for(size_t rows, int looks = 1);

double median_of(std::vector<double> values);  // of at least one

// Medians of consecutive samples, at most `batches` of them and as even as can be: figures that are
// less noisy, and less alike to their neighbours, than the samples.
std::vector<double> batch_medians(std::span<const double> samples, size_t batches);

// How alike neighbours are, between -1 and 1, by ranks; 0 for fewer than four figures. The interval
// of two runs is widened by sqrt((1 + r) / (1 - r)) where it is positive: so much less do figures
// tell that drift together.
double autocorrelation(std::span<const double> figures);

}  // namespace ridgeline
