// The noise floor: how far two single runs of one row lie apart when nothing differs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/compare.h"
#include "measure/record.h"

namespace ridgeline {

// A floor needs at least so many runs: fewer do not bound their own spread.
inline constexpr int kFewestFloorRuns = 11;

// Of one phase of one row.
struct MeasuredNoise {
  std::string fingerprint, device, implementation, row_key, phase;
  std::string row = {};  // for people
  double fraction = 0;   // an upper bound, never 0
  int runs = 0;

  bool operator==(const MeasuredNoise&) const = default;
};

// Two runs lie further apart than the floor in 1 % of cases, if logarithms of runs' medians are
// normal; their standard deviation is taken at its upper bound of 95 %. Rows with fewer than
// kFewestFloorRuns good runs have none.
std::vector<MeasuredNoise> measured_noise(std::span<const std::vector<Record>> runs);

}  // namespace ridgeline
