// Measures two programs in turns, A B B A, so that whatever disturbs the machine disturbs both.
//
//   const Interleaved result = interleave({"old/ridgeline", "attention", "--impl", "flash"},
//                                         {"new/ridgeline", "attention", "--impl", "flash"}, {});
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/child_study.h"
#include "measure/record.h"

namespace ridgeline {

struct InterleaveOptions {
  // Both programs are started anew in every round: where tensors come to lie in memory changes
  // figures by a percent, and only a fresh start draws it again. At least so many rounds.
  int rounds = 6;
  // Rounds go on until every ratio is known to within this, or the budget is spent. Only the width
  // of intervals ends them, never what they say.
  double target_precision = 0.01;
  double time_budget_s = 10;  // of samples per row, all rounds together
  double block_ms = 1;        // each letter is as many samples as fill this time, at least one
  std::function<bool()> interrupted = {};
  // Told before each measurement: the round and the row, both from 0.
  std::function<void(int round, size_t row)> progress = {};
};

// One phase of one row on both sides.
struct PairedPhase {
  std::string name;
  std::vector<double>
      log_ratios;  // of time, new over base; one per quad A B B A, in the order taken
  std::vector<double> base_ms, new_ms;  // all samples
};

struct PairedRow {
  Record base, next;  // of the first round; those after it skip the check against the oracle
  std::vector<PairedPhase>
      phases;  // empty: at least one side was not measured, its status says why
};

struct Interleaved {
  std::vector<PairedRow> rows;
  std::vector<Record> base, next;  // every record of every round
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
