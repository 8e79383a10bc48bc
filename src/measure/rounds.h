// Interleaved measurements: quads A B B A, rounds of quads, and when there are enough rounds.
//
// Rounds are independent: each restarts both programs, and a coin decides which goes first. If the
// sides are equal, a round therefore favours either with probability 1/2, for any noise of the
// machine, and the signs of rounds are independent. The verdict uses only one log ratio per round.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// The samples of both sides in the turns A B B A.
struct Quad {
  std::vector<double> base_ms, new_ms;
};

// One phase of one row on both sides.
struct PairedPhase {
  std::string name;
  std::vector<double> log_ratios;       // log(new / base), one per round
  std::vector<double> base_ms, new_ms;  // all samples

  // Adds the median log ratio of the quads. Within a quad, a side counts by its fastest sample, or
  // the first decile of many, because other work only adds time.
  void add_round(std::span<const Quad> quads);
};

struct PairedRow {
  Record base, next;                // of the run that checks the values
  std::vector<PairedPhase> phases;  // empty: a side was not measured; its status says why

  PairedPhase& phase(const std::string& name);  // added if missing
};

// Interim analyses take place after 11, 14, 20, 28, 40, 56, 80 and 112 rounds, and at the end. Each
// adds a chance of error, so the allowed error is divided between them (confidence_for).
inline constexpr int kLooks = 9, kFirstLook = 11;
bool is_look(int rounds);
// The fewest rounds after which signed ranks give each of so many lines an interval.
int fewest_rounds(size_t lines);

struct RoundOptions {
  int rounds = 160;           // at most
  double time_budget_s = 60;  // per row; the fewest rounds run in any case
  // Called at each look; returns, per row, whether it is settled. Settled rows are not measured any
  // more, and rounds end when all are. Empty: no row is ever settled.
  std::function<std::vector<bool>(const std::vector<PairedRow>&)> settled = {};
  std::function<double()> now_s = {};  // the clock of the budget; empty: a monotonic clock
};

// Measures one round of the rows that are not settled. Returns false if interrupted.
using MeasureRound =
    std::function<bool(int round, const std::vector<bool>& settled, std::vector<PairedRow>& rows)>;

// Returns false if interrupted.
bool take_rounds(std::vector<PairedRow>& rows, const RoundOptions& options,
                 const MeasureRound& measure);

}  // namespace ridgeline
