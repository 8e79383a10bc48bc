#include "studies/comm/fit.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ridgeline {

std::optional<CommFit> fit_latency_and_bandwidth(std::span<const CommPoint> points,
                                                 double bus_factor) {
  std::set<double> sizes;
  // Sums of the normal equations of (alpha + slope S) / T = 1.
  double a_a = 0, a_s = 0, s_s = 0, a_1 = 0, s_1 = 0;
  for (const CommPoint& point : points) {
    if (!(point.seconds > 0) || !(point.bytes > 0)) return std::nullopt;
    sizes.insert(point.bytes);
    const double a = 1 / point.seconds, s = point.bytes / point.seconds;
    a_a += a * a, a_s += a * s, s_s += s * s, a_1 += a, s_1 += s;
  }
  if (sizes.size() < kFewestSizes) return std::nullopt;
  const double determinant = a_a * s_s - a_s * a_s;
  double alpha = (a_1 * s_s - s_1 * a_s) / determinant;
  double slope = (a_a * s_1 - a_s * a_1) / determinant;
  if (!(alpha >= 0)) {
    alpha = 0;
    slope = s_1 / s_s;
  }
  if (!(slope > 0)) return std::nullopt;
  CommFit fit{.alpha_s = alpha, .beta_bytes_per_s = bus_factor / slope};
  for (const CommPoint& point : points) {
    const double residual = std::abs((alpha + slope * point.bytes) / point.seconds - 1);
    fit.worst_residual = std::max(fit.worst_residual, residual);
  }
  return fit;
}

}  // namespace ridgeline
