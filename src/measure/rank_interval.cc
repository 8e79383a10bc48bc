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

// Returns, for each s, how many of the 2^n equally likely sign patterns have positive ranks that
// sum to s: the coefficients of the product of (1 + q^i).
std::vector<double> signed_rank_counts(size_t n) {
  std::vector<double> counts(n * (n + 1) / 2 + 1, 0.0);
  counts[0] = 1;
  for (size_t i = 1; i <= n; ++i)
    for (size_t s = counts.size() - 1; s >= i; --s) counts[s] += counts[s - i];
  return counts;
}

// Returns the interval between two order statistics of `candidates`, the narrowest that both tails
// of the null distribution allow.
Shift between_ranks(std::vector<double> candidates, const std::vector<double>& counts,
                    double confidence) {
  std::sort(candidates.begin(), candidates.end());
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  size_t inwards = 0;  // candidates outside of the interval on each side, plus one
  for (double tail = 0; inwards < candidates.size() / 2; ++inwards) {
    tail += counts[inwards];
    if (2 * tail > (1 - confidence) * total) break;
  }
  const double infinity = std::numeric_limits<double>::infinity();
  if (inwards == 0) return {median_of(candidates), -infinity, infinity};
  return {median_of(candidates), candidates[inwards - 1], candidates[candidates.size() - inwards]};
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

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double squared_deviations(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

double confidence_for(size_t rows, int looks) {
  const double error =
      std::min(kRowError, kFamilyError / static_cast<double>(std::max<size_t>(rows, 1)));
  return 1 - error / looks;
}

Shift paired_shift(std::span<const double> differences, double confidence) {
  check(differences);
  if (differences.size() > kMaxPairs) throw Error(ErrorKind::internal, "too many pairs to rank");
  std::vector<double> averages;
  for (size_t i = 0; i < differences.size(); ++i)
    for (size_t j = 0; j <= i; ++j) averages.push_back((differences[i] + differences[j]) / 2);
  return between_ranks(averages, signed_rank_counts(differences.size()), confidence);
}

double log_ms(double ms) {
  constexpr double kNanosecondMs = 1e-6;
  return std::log(std::max(ms, kNanosecondMs));
}

}  // namespace ridgeline
