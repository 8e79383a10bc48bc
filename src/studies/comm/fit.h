// Time of a collective over its size as a latency and a bandwidth: T(S) = alpha + k S / beta, where
// k is what a rank must send of each byte (bus_factor).
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
  double worst_residual = 0;  // of the time that was measured: 0.1 is 10 %
  double rms_residual = 0;
};
inline constexpr size_t kFewestSizes = 3;  // two would be fitted by any line

// Least squares of relative errors, so that a millisecond counts as much as a second; alpha is not
// below 0. Empty: fewer than kFewestSizes sizes, or times that do not grow.
std::optional<CommFit> fit_latency_and_bandwidth(std::span<const CommPoint> points,
                                                 double bus_factor);

}  // namespace ridgeline
