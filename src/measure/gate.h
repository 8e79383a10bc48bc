// Conditions that a comparison must meet, as a continuous integration writes them: "slower:3%".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "measure/compare.h"

namespace ridgeline {

struct GateRule;

struct Gate {
  const GateRule* rule;
  double limit = 0;  // a fraction
  std::string text;  // as given
};

// One line per kind of gate, for --help.
std::string gate_help();

// "slower:3%", "slower" (any), "geomean:1%", "memory:5%", "unclear", "missing". Throws a usage
// error that lists them.
Gate parse_gate(std::string_view text);

// What a gate found, in words; both empty: judged, and passed.
struct GateResult {
  std::vector<std::string> failures = {};   // regressions
  std::vector<std::string> undecided = {};  // rows in which one could not have been seen
};
// A row that was ok in the base and is no longer fails every gate.
GateResult judge(const Gate& gate, const Comparison& comparison);

// Whether more samples of this row would change nothing for the gate.
bool is_decided(const Gate& gate, const RowComparison& row, double tolerance);

}  // namespace ridgeline
