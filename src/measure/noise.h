// Computes noise floors: upper bounds on the difference between two single runs of the same row.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/compare.h"
#include "measure/record.h"

namespace ridgeline {

// With fewer runs, the bound on their spread is too loose.
inline constexpr int kFewestFloorRuns = 11;

// The noise floor of one phase of one row.
struct MeasuredNoise {
  std::string fingerprint, device, implementation, row_key, phase;
  std::string row = {};  // as displayed
  double fraction = 0;   // an upper bound, never 0
  int runs = 0;

  bool operator==(const MeasuredNoise&) const = default;
};

// Two runs differ by more than the floor in 1 % of cases, if the logarithms of the medians of runs
// are normal. Uses the upper 95 % confidence bound of their standard deviation. Rows with fewer
// than kFewestFloorRuns runs that are ok get no floor.
std::vector<MeasuredNoise> measured_noise(std::span<const std::vector<Record>> runs);

}  // namespace ridgeline
