#include "measure/growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace ridgeline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Slope {
  double estimate, low, high;
};

Slope slope_between(const Observation& a, const Observation& b) {
  const double doublings = std::log(b.x / a.x);
  const auto over = [&](double late, double early) { return std::log(late / early) / doublings; };
  return {over(b.y, a.y), over(b.low, a.high), over(b.high, a.low)};
}

std::vector<Observation> usable(std::span<const Observation> curve) {
  const auto counts = [](double value) { return value > 0 && std::isfinite(value); };
  std::map<double, Observation> by_x;
  for (const Observation& o : curve)
    if (counts(o.x) && counts(o.y)) by_x[o.x] = o;
  std::vector<Observation> sorted;
  for (const auto& [x, o] : by_x) sorted.push_back(o);
  return sorted;
}

// "S^1.65", or "S^1.40 to S^1.65 in 4 settings".
std::string exponents(double least, double most, size_t curves, std::string_view variable) {
  const auto power = [&](double exponent) { return fmt::format("{}^{:.2f}", variable, exponent); };
  std::string text = power(least);
  if (power(most) != text) text += " to " + power(most);
  if (curves > 1) text += fmt::format(" in {} settings", curves);
  return text;
}

// "S 256" or "S 256 to 1024".
std::string sizes(double least, double most, std::string_view variable) {
  return least == most ? fmt::format("{} {:.0f}", variable, least)
                       : fmt::format("{} {:.0f} to {:.0f}", variable, least, most);
}

template <class Value>
std::pair<double, double> extent(std::span<const Growth> curves, Value value) {
  double low = kInfinity, high = -kInfinity;
  for (const Growth& growth : curves) {
    low = std::min(low, value(growth));
    high = std::max(high, value(growth));
  }
  return {low, high};
}

// Names an integer exponent only if the interval excludes every other.
const char* round_name(double low, double high) {
  constexpr double kClose = 0.2;
  const auto near = [&](double exponent) {
    return low >= exponent - kClose && high <= exponent + kClose;
  };
  return near(2) ? ", close to quadratic" : near(1) ? ", close to linear" : "";
}

// Least-squares fit of the relative deviations.
struct Fit {
  std::array<double, 3> coefficients = {};
  double worst = kInfinity;  // the largest relative deviation
};

Fit fit_terms(const std::vector<Observation>& curve, const std::vector<size_t>& terms) {
  // Sizes are relative to the largest and values to themselves, which keeps the system well scaled.
  const double largest = curve.back().x;
  const auto term = [&](const Observation& o, size_t power) {
    return std::pow(o.x / largest, static_cast<double>(power)) / o.y;
  };
  const size_t n = terms.size();
  std::vector<std::vector<double>> rows(n, std::vector<double>(n + 1));
  for (const Observation& o : curve)
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) rows[i][j] += term(o, terms[i]) * term(o, terms[j]);
      rows[i][n] += term(o, terms[i]);
    }
  for (size_t i = 0; i < n; ++i)  // Gauss-Jordan without pivots: the matrix is positive definite
    for (size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double factor = rows[k][i] / rows[i][i];
      for (size_t j = 0; j <= n; ++j) rows[k][j] -= factor * rows[i][j];
    }
  Fit fit;
  for (size_t i = 0; i < n; ++i) fit.coefficients[terms[i]] = rows[i][n] / rows[i][i];
  fit.worst = 0;
  for (const Observation& o : curve) {
    double sum = 0;
    for (size_t power = 0; power < 3; ++power) sum += fit.coefficients[power] * term(o, power);
    fit.worst = std::max(fit.worst, std::abs(sum - 1));
  }
  return fit;
}

}  // namespace

Observation exactly(double x, double y) {
  return {.x = x, .y = y, .low = y, .high = y};
}

Observation median_at(double x, const Statistics& statistics, bool of_runs) {
  const bool known = std::isfinite(relative_half_width(statistics));
  return {x, statistics.median_ms, known ? statistics.median_low_ms : 0,
          known ? statistics.median_high_ms : kInfinity, of_runs};
}

bool Growth::has_interval() const {
  return std::isfinite(low) && std::isfinite(high);
}

std::optional<Growth> growth_at_end(std::span<const Observation> curve) {
  const std::vector<Observation> sorted = usable(curve);
  if (sorted.empty()) return std::nullopt;
  const Observation& end = sorted.back();
  const auto past = std::find_if(sorted.begin(), sorted.end(),
                                 [&](const Observation& o) { return o.x * kEndRange > end.x; });
  if (past == sorted.begin()) return std::nullopt;
  const Observation& start = past[-1];
  const Slope whole = slope_between(start, end);
  const auto is_exact = [](const Observation& o) { return o.low == o.y && o.high == o.y; };
  Growth growth{.exponent = whole.estimate,
                .low = whole.low,
                .high = whole.high,
                .exact = is_exact(start) && is_exact(end),
                .of_runs = start.of_runs && end.of_runs,
                .from = start.x,
                .to = end.x};
  if (past + 1 != sorted.end()) {
    const Observation& before_last = sorted[sorted.size() - 2];
    growth.rising =
        slope_between(before_last, end).low > slope_between(start, before_last).high + kRising;
  }
  for (auto o = sorted.begin(); o->x < start.x; ++o) {
    if (!(growth.low > 0 && slope_between(o[0], o[1]).high < growth.low / 2)) break;
    growth.fixed_until = o->x;
  }
  return growth;
}

std::string in_words(std::span<const Growth> curves, std::string_view variable) {
  if (curves.empty()) return {};
  const auto [least, most] = extent(curves, [](const Growth& g) { return g.exponent; });
  const double low = extent(curves, [](const Growth& g) { return g.low; }).first;
  const double high = extent(curves, [](const Growth& g) { return g.high; }).second;
  const auto all = [&](auto holds) { return std::all_of(curves.begin(), curves.end(), holds); };
  const bool of_runs = all([](const Growth& g) { return g.of_runs; });
  std::string text = exponents(least, most, curves.size(), variable);
  if (!all([](const Growth& g) { return g.has_interval(); }))
    text += fmt::format(" (too few {} for an interval)", of_runs ? "runs" : "samples");
  else if (!all([](const Growth& g) { return g.exact; }))
    text +=
        fmt::format(" ({:.2f} to {:.2f} {})", low, high, of_runs ? "between runs" : "within-run");
  const auto rising =
      std::count_if(curves.begin(), curves.end(), [](const Growth& g) { return g.rising; });
  if (rising == 0) text += round_name(low, high);

  const bool one_range = all(
      [&](const Growth& g) { return g.from == curves.front().from && g.to == curves.front().to; });
  text += one_range ? fmt::format(", from {} {:.0f} to {:.0f}", variable, curves.front().from,
                                  curves.front().to)
                    : ", each over its last two doublings or more";
  if (rising > 0)
    text += rising == std::ssize(curves)
                ? " and still rising there"
                : fmt::format(", in {} of them still rising there", rising);

  std::vector<Growth> fixed;
  for (const Growth& growth : curves)
    if (growth.fixed_until) fixed.push_back(growth);
  if (fixed.empty()) return text;
  const auto [first, last] = extent(fixed, [](const Growth& g) { return *g.fixed_until; });
  return text +
         fmt::format(
             "; up to {} the part that does not grow decides{}", sizes(first, last, variable),
             fixed.size() == curves.size() ? "" : fmt::format(" in {} of them", fixed.size()));
}

std::optional<double> fixed_part(std::span<const Observation> curve) {
  constexpr double kExplained = 1e-3;
  const std::vector<Observation> sorted = usable(curve);
  const std::vector<size_t> candidates[] = {{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}};
  for (size_t count = 1; count < std::min<size_t>(sorted.size(), 4); ++count) {
    Fit best;
    for (const std::vector<size_t>& terms : candidates) {
      if (terms.size() != count) continue;
      const Fit fit = fit_terms(sorted, terms);
      const bool adds = std::all_of(terms.begin(), terms.end(),
                                    [&](size_t power) { return fit.coefficients[power] > 0; });
      if (adds && fit.worst < best.worst) best = fit;
    }
    if (best.worst <= kExplained) return best.coefficients[0];
  }
  return std::nullopt;
}

}  // namespace ridgeline
