// Statistics of repeated timings: the median first, with an interval that assumes no distribution.
//
//   Statistics s = summarize(samples_ms);
//   fmt::print("{:.3f} ms [{:.3f}, {:.3f}]\n", s.median_ms, s.median_low_ms, s.median_high_ms);
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace ridgeline {

// Confidence of the interval of a median.
inline constexpr double kMedianConfidence = 0.95;

// The fewest samples whose extremes enclose the true median with that confidence: all n samples are
// on one side of it with probability 2^(1 - n).
constexpr int samples_for_median(double confidence) {
  int samples = 1;
  for (double one_sided = 1; one_sided > 1 - confidence; one_sided /= 2) ++samples;
  return samples;
}
// The default minimum of a time budget, and what a verdict on single runs needs.
inline constexpr int kMinIntervalSamples = samples_for_median(kMedianConfidence);

// NaN means unknown, such as the standard deviation of one sample.
struct Statistics {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  int64_t count = 0;
  double median_ms = kUnknown;
  // Order statistics that enclose the true median with a probability of at least kMedianConfidence,
  // or the extremes if there are fewer than kMinIntervalSamples samples; `median_coverage` is the
  // actual probability. A within-run interval: it does not include variation between runs.
  double median_low_ms = kUnknown;
  double median_high_ms = kUnknown;
  double median_coverage = kUnknown;
  double mean_ms = kUnknown;
  double std_ms = kUnknown;  // with n - 1 in the denominator
  double min_ms = kUnknown;
  double max_ms = kUnknown;
  double p95_ms = kUnknown;
  double p99_ms = kUnknown;
  double iqr_ms = kUnknown;  // p75 - p25

  bool operator==(const Statistics&) const = default;
};

// Percentiles interpolate linearly between the order statistics around rank p(n - 1), counted from
// 0 (NumPy's default). Throws an internal error for no samples, or for one that is not finite.
Statistics summarize(std::span<const double> samples_ms);

// Half the width of the median's interval over the median; infinity while its coverage is below
// kMedianConfidence.
double relative_half_width(const Statistics& statistics);

// One named series of timings (forward, backward) with the raw samples kept.
struct Series {
  std::string name;
  Statistics statistics;
  std::vector<double> samples_ms;

  bool operator==(const Series&) const = default;
};

}  // namespace ridgeline
