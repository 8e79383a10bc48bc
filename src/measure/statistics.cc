#include "measure/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "measure/rank_interval.h"

namespace ridgeline {
namespace {

double percentile(const std::vector<double>& sorted, double fraction) {
  const double rank = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], rank - static_cast<double>(below));
}

struct MedianRanks {
  size_t low;  // counted from 0; the upper rank is its mirror image
  double coverage;
};

// The number of samples below the true median is binomial(n, 1/2) for any distribution. The
// interval shrinks from the extremes for as long as both tails together allow it.
MedianRanks median_ranks(size_t n) {
  double log_term = -static_cast<double>(n) * std::log(2.0);
  double tail = std::exp(log_term);
  size_t low = 0;
  while (low + 1 <= (n - 1) / 2) {
    log_term += std::log(static_cast<double>(n - low) / static_cast<double>(low + 1));
    const double wider_tail = tail + std::exp(log_term);
    if (wider_tail > (1 - kMedianConfidence) / 2) break;
    tail = wider_tail;
    ++low;
  }
  return {low, 1 - 2 * tail};
}

}  // namespace

Statistics summarize(std::span<const double> samples_ms) {
  if (samples_ms.empty()) throw Error(ErrorKind::internal, "no samples to summarize");
  for (const double sample : samples_ms)
    if (!std::isfinite(sample))
      throw Error(ErrorKind::internal, fmt::format("a sample of {} ms: expected a time", sample));

  std::vector<double> sorted(samples_ms.begin(), samples_ms.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();

  Statistics s;
  s.count = static_cast<int64_t>(n);
  s.min_ms = sorted.front();
  s.max_ms = sorted.back();
  s.median_ms = percentile(sorted, 0.5);
  s.p95_ms = percentile(sorted, 0.95);
  s.p99_ms = percentile(sorted, 0.99);
  s.iqr_ms = percentile(sorted, 0.75) - percentile(sorted, 0.25);

  const MedianRanks ranks = median_ranks(n);
  s.median_low_ms = sorted[ranks.low];
  s.median_high_ms = sorted[n - 1 - ranks.low];
  s.median_coverage = ranks.coverage;

  s.mean_ms = mean_of(sorted);
  if (n > 1) s.std_ms = std::sqrt(squared_deviations(sorted) / static_cast<double>(n - 1));
  return s;
}

double relative_half_width(const Statistics& statistics) {
  if (!(statistics.median_coverage >= kMedianConfidence) || !(statistics.median_ms > 0))
    return std::numeric_limits<double>::infinity();
  return (statistics.median_high_ms - statistics.median_low_ms) / 2 / statistics.median_ms;
}

}  // namespace ridgeline
