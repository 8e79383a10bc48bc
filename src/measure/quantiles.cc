#include "measure/quantiles.h"

#include <cmath>
#include <functional>

namespace ridgeline {
namespace {

// Returns where an increasing function equals `target`, by bisection between two bounds.
double solve(const std::function<double(double)>& rising, double target, double low, double high) {
  constexpr int kHalvings = 100;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (rising(middle) < target ? low : high) = middle;
  }
  return (low + high) / 2;
}

// For whole degrees of freedom both distribution functions are finite sums (Abramowitz and Stegun,
// 26.7.3 and 26.4.4-5).
double student_t_below(double t, int degrees) {
  const double angle = std::atan(t / std::sqrt(degrees));
  const double cosine = std::cos(angle), sine = std::sin(angle);
  if (degrees % 2 == 1) {
    double sum = 0, term = cosine;
    for (int k = 1; k <= degrees - 2; k += 2) {
      sum += term;
      term *= cosine * cosine * (k + 1) / (k + 2);
    }
    return 0.5 + (angle + sine * sum) / M_PI;
  }
  double sum = 0, term = 1;
  for (int k = 0; k <= degrees - 2; k += 2) {
    sum += term;
    term *= cosine * cosine * (k + 1) / (k + 2);
  }
  return 0.5 + sine * sum / 2;
}

double chi_square_below(double x, int degrees) {
  const double half = x / 2;
  double above = 0;
  if (degrees % 2 == 0) {
    double term = std::exp(-half);
    for (int k = 1; k <= degrees / 2; ++k) {
      above += term;
      term *= half / k;
    }
  } else {
    above = std::erfc(std::sqrt(half));
    double term = std::exp(-half) * std::sqrt(half) * 2 / std::sqrt(M_PI);
    for (int k = 3; k <= degrees; k += 2) {
      above += term;
      term *= x / k;
    }
  }
  return 1 - above;
}

}  // namespace

double student_t_quantile(double probability, int degrees) {
  constexpr double kFar = 1e6;
  return solve([&](double t) { return student_t_below(t, degrees); }, probability, -kFar, kFar);
}

double chi_square_quantile(double probability, int degrees) {
  const double far = 10.0 * degrees + 100;
  return solve([&](double x) { return chi_square_below(x, degrees); }, probability, 0, far);
}

}  // namespace ridgeline
