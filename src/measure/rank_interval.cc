#include "measure/rank_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace ridgeline {
namespace {

constexpr double kFamilyError = 0.05;
constexpr double kRowError = 0.01;
// The most that autocorrelation widens an interval by: beyond it the estimate of r itself is loose.
constexpr double kMaxAutocorrelation = 0.9;

// In how many of the 2^n equally likely cases the ranks of positive differences sum to s: the
// coefficients of the product of (1 + q^i).
std::vector<double> signed_rank_counts(size_t n) {
  std::vector<double> counts(n * (n + 1) / 2 + 1, 0.0);
  counts[0] = 1;
  for (size_t i = 1; i <= n; ++i)
    for (size_t s = counts.size() - 1; s >= i; --s) counts[s] += counts[s - i];
  return counts;
}

// The same for the number of pairs in which a figure of the first group is the larger one: the
// Gaussian binomial coefficient, a product of (1 - q^(n + i)) / (1 - q^i).
std::vector<double> rank_sum_counts(size_t m, size_t n) {
  std::vector<double> counts(m * n + 1, 0.0);
  counts[0] = 1;
  for (size_t i = 1; i <= m; ++i) {
    for (size_t s = counts.size(); s-- > n + i;) counts[s] -= counts[s - n - i];
    for (size_t s = i; s < counts.size(); ++s) counts[s] += counts[s - i];
  }
  return counts;
}

// The interval between two order statistics of `candidates`, as far inwards as both tails of the
// null distribution allow.
Shift between_ranks(std::vector<double> candidates, const std::vector<double>& counts,
                    double confidence) {
  std::sort(candidates.begin(), candidates.end());
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  size_t inwards = 0;  // candidates left outside on each side, plus one
  for (double tail = 0; inwards < candidates.size() / 2; ++inwards) {
    tail += counts[inwards];
    if (2 * tail > (1 - confidence) * total) break;
  }
  const double infinity = std::numeric_limits<double>::infinity();
  if (inwards == 0) return {median_of(candidates), -infinity, infinity};
  return {median_of(candidates), candidates[inwards - 1], candidates[candidates.size() - inwards]};
}

Shift widened(Shift shift, double r) {
  const double bounded = std::clamp(r, 0.0, kMaxAutocorrelation);
  const double factor = std::sqrt((1 + bounded) / (1 - bounded));
  shift.low = shift.estimate - factor * (shift.estimate - shift.low);
  shift.high = shift.estimate + factor * (shift.high - shift.estimate);
  return shift;
}

void check(std::span<const double> figures) {
  if (figures.empty()) throw Error(ErrorKind::internal, "no figures to compare");
  for (const double figure : figures)
    if (!std::isfinite(figure))
      throw Error(ErrorKind::internal, "a figure to compare is not a number");
}

}  // namespace

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double confidence_for(size_t rows, int looks) {
  const double error =
      std::min(kRowError, kFamilyError / static_cast<double>(std::max<size_t>(rows, 1)));
  return 1 - error / looks;
}

std::vector<double> batch_medians(std::span<const double> samples, size_t batches) {
  const size_t count = std::min(batches, samples.size());
  std::vector<double> medians;
  for (size_t i = 0; i < count; ++i) {
    const auto begin = samples.begin() + static_cast<ptrdiff_t>(samples.size() * i / count);
    const auto end = samples.begin() + static_cast<ptrdiff_t>(samples.size() * (i + 1) / count);
    medians.push_back(median_of({begin, end}));
  }
  return medians;
}

double autocorrelation(std::span<const double> figures) {
  const size_t n = figures.size();
  if (n < 4) return 0;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return figures[a] < figures[b]; });
  // Equal figures share the middle of their ranks: a constant run is not a trend.
  std::vector<double> centred(n);
  for (size_t i = 0; i < n;) {
    size_t end = i;
    while (end < n && figures[order[end]] == figures[order[i]]) ++end;
    const double rank = (static_cast<double>(i) + static_cast<double>(end - 1)) / 2;
    for (; i < end; ++i) centred[order[i]] = rank - static_cast<double>(n - 1) / 2;
  }
  double squares = 0, neighbours = 0;
  for (size_t i = 0; i < n; ++i) {
    squares += centred[i] * centred[i];
    if (i > 0) neighbours += centred[i] * centred[i - 1];
  }
  return squares > 0 ? neighbours / squares : 0;
}

Shift paired_shift(std::span<const double> differences, double confidence) {
  check(differences);
  if (differences.size() > kMaxPairs) throw Error(ErrorKind::internal, "too many pairs to rank");
  std::vector<double> averages;
  for (size_t i = 0; i < differences.size(); ++i)
    for (size_t j = 0; j <= i; ++j) averages.push_back((differences[i] + differences[j]) / 2);
  return between_ranks(averages, signed_rank_counts(differences.size()), confidence);
}

std::vector<double> logarithms(std::span<const double> times) {
  std::vector<double> out;
  for (const double time : times) out.push_back(std::log(std::max(time, 1e-9)));
  return out;
}

Shift unpaired_shift(std::span<const double> base, std::span<const double> next,
                     double confidence) {
  check(base);
  check(next);
  const std::vector<double> before = batch_medians(base, kMaxBatches);
  const std::vector<double> after = batch_medians(next, kMaxBatches);
  std::vector<double> differences;
  for (const double a : after)
    for (const double b : before) differences.push_back(a - b);
  return widened(
      between_ranks(differences, rank_sum_counts(before.size(), after.size()), confidence),
      std::max(autocorrelation(before), autocorrelation(after)));
}

}  // namespace ridgeline
