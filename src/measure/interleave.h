// Measures two programs in turns, A B B A, so that disturbances of the machine affect both.
//
//   const Interleaved result = interleave({"old/ridgeline", "attention", "--impl", "flash"},
//                                         {"new/ridgeline", "attention", "--impl", "flash"}, {});
//
// First both run once to check values against the oracle. Each round (rounds.h) then restarts both,
// because the placement of tensors in memory changes times, and runs them on the same processors,
// because processors are not equally disturbed.
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
  double round_ms = 250;  // a round takes as many quads of a row as fill it, 2 to 40
  std::function<bool()> interrupted = {};
  // Called before each measurement with the round (0 for the check) and the row, from 0.
  std::function<void(int round, size_t row)> progress = {};
};

struct Interleaved {
  std::vector<PairedRow> rows = {};
  std::vector<Record> base = {}, next = {};  // every record of every round
  bool interrupted = false;
};

// Each command must be a study of this program or of another build of it. Both must expand to the
// same number of rows, which are paired in order. Throws an environment error that quotes a program
// if it fails.
Interleaved interleave(const Command& base, const Command& next, const InterleaveOptions& options);

// Runs one study without turns. Returns its records, or nullopt if interrupted.
std::optional<std::vector<Record>> run_alone(const Command& command,
                                             const std::function<bool()>& interrupted);

}  // namespace ridgeline
