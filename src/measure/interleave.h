// Measures two programs in turns, A B B A, so that whatever disturbs the machine disturbs both.
//
//   const Interleaved result = interleave({"old/ridgeline", "attention", "--impl", "flash"},
//                                         {"new/ridgeline", "attention", "--impl", "flash"}, {});
//
// First both run once to check values against the oracle. Then rounds (rounds.h): both are started
// anew, because where tensors come to lie in memory changes figures, on the same processors,
// because no two are equally undisturbed.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "measure/child_study.h"
#include "measure/record.h"
#include "measure/rounds.h"

namespace ridgeline {

struct InterleaveOptions {
  RoundOptions rounds = {};
  // A turn is as many samples as fill this time on the slower side, at least one; a round has as
  // many quads of a row as fill that time, at least two and at most 40.
  double turn_ms = 4, round_ms = 250;
  std::function<bool()> interrupted = {};
  // Told before each measurement: 0 for the check, then the round from 1; and the row from 0.
  std::function<void(int round, size_t row)> progress = {};
};

struct Interleaved {
  std::vector<PairedRow> rows = {};
  std::vector<Record> base = {}, next = {};  // every record of every round
  bool interrupted = false;
};

// Each command must be a study of this program (or of another build of it) and expand to as many
// rows as the other; they are paired in order. Throws an environment error with what a program said
// when it fails.
Interleaved interleave(const Command& base, const Command& next, const InterleaveOptions& options);

// One run of a study by itself: its records; empty: interrupted.
std::optional<std::vector<Record>> run_alone(const Command& command,
                                             const std::function<bool()>& interrupted);

}  // namespace ridgeline
