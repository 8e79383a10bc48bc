// Fits a latency and a bandwidth to the times of a collective: T(S) = alpha + k S / beta, where k
// is the number of bytes that a rank must send per byte of its buffer (bus_factor).
#pragma once

#include <optional>
#include <span>

namespace ridgeline {

struct CommPoint {
  double bytes = 0, seconds = 0;
};
struct CommFit {
  double alpha_s = 0;
  double beta_bytes_per_s = 0;
  double worst_residual = 0;  // relative to the measured time: 0.1 is 10 %
};
inline constexpr size_t kFewestSizes = 3;  // a line fits any two

// Least squares of relative errors, so that short and long times count alike; alpha is at least 0.
// Returns nullopt for fewer than kFewestSizes sizes, or if times do not grow.
std::optional<CommFit> fit_latency_and_bandwidth(std::span<const CommPoint> points,
                                                 double bus_factor);

}  // namespace ridgeline
