// What two sides in turns tell: quads A B B A, rounds of quads, and when there are enough rounds.
//
// A round is what is independent: in each both programs are started anew, and a coin decides who
// goes first. So if the sides are the same, a round favours either with even chances, whatever the
// noise of the machine is, and the signs of rounds are independent. The verdict rests on one figure
// per round and on nothing else.
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
  std::vector<double> log_ratios;       // of time, new over base: one per round
  std::vector<double> base_ms, new_ms;  // all samples

  // The round's figure is the median of its quads. Other work only ever adds time, so in a quad a
  // side speaks by its quickest sample, or the first decile of many.
  void add_round(std::span<const Quad> quads);
};

struct PairedRow {
  Record base, next;  // of the run that checks the values
  std::vector<PairedPhase>
      phases;  // empty: at least one side was not measured, its status says why

  PairedPhase& phase(const std::string& name);  // added if it is not there
};

// Figures are looked at after 10, 14, 20, 28, 40, 56, 80 and 112 rounds, and at the end. Each look
// is a chance to be wrong, so each has its share of the error that is allowed (confidence_for).
inline constexpr int kLooks = 9, kFirstLook = 10;
bool is_look(int rounds);

struct RoundOptions {
  int rounds = 160;           // the most
  double time_budget_s = 60;  // per row; those before the first look are done in any case
  // Asked at each look; one answer per row. What is settled is not measured any more; rounds end
  // when all is. Empty: never.
  std::function<std::vector<bool>(const std::vector<PairedRow>&)> settled = {};
  std::function<double()> now_s = {};  // the clock of the budget; empty: a monotonic clock
};

// Measures the rows that are not settled yet; false: interrupted.
using MeasureRound =
    std::function<bool(int round, const std::vector<bool>& settled, std::vector<PairedRow>& rows)>;

// False: interrupted.
bool take_rounds(std::vector<PairedRow>& rows, const RoundOptions& options,
                 const MeasureRound& measure);

}  // namespace ridgeline
