// The noise floor: how far a study lies from itself when nothing differs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/compare.h"
#include "measure/interleave.h"
#include "measure/record.h"

namespace ridgeline {

// Of one phase of one row.
struct MeasuredNoise {
  std::string fingerprint, device, implementation, row_key, phase;
  std::string row = {};  // for people
  Pairing pairing = Pairing::interleaved;
  double fraction = 0;
  int comparisons = 0;  // that have an interval; 0: nothing is known

  bool operator==(const MeasuredNoise&) const = default;
};

// The most that self-comparisons differed beyond their own intervals: what samples within a run do
// not show. Interleaved: of comparisons in turns. Separate: of any two runs by themselves.
std::vector<MeasuredNoise> measured_noise(std::span<const Interleaved> in_turns,
                                          std::span<const std::vector<Record>> alone);

}  // namespace ridgeline
