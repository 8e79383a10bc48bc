// Gates: conditions on a comparison for continuous integration, such as "slower:3%".
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

// A comma-separated list of all gates, for --help.
std::string gate_help();

// Accepts "slower:3%", "slower" (by any amount), "geomean:1%", "memory:5%", "unclear", "missing".
// Throws a usage error that lists them.
Gate parse_gate(std::string_view text);

// Descriptions of what a gate found; it passed if both are empty.
struct GateResult {
  std::vector<std::string> failures = {};   // regressions
  std::vector<std::string> undecided = {};  // rows in which a regression may have gone undetected
};
// A row that was ok in the base and is not ok now fails every gate.
GateResult judge(const Gate& gate, const Comparison& comparison);

// Whether the gate needs no more samples of this row.
bool is_decided(const Gate& gate, const RowComparison& row, double tolerance);

}  // namespace ridgeline
