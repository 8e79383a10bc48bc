// Which implementation is fastest at which length, and the rule that follows.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/page/rows.h"
#include "report/verdicts.h"

namespace ridgeline {

// An implementation that the fastest one is compared with.
struct Rival {
  std::string name = {};
  double ratio = 0;  // its median over that of the fastest
  Judgement judgement = {};
};

// One phase at one size that several implementations tried.
struct Contest {
  int64_t seq_len = 0;
  // The one with the smallest median, then those that it is not FASTER than. A single one wins: it
  // is FASTER than every other, or the others cannot run.
  std::vector<std::string> unbeaten = {};
  std::vector<Rival> rivals = {};  // all others that were measured
  size_t ran = 0;                  // how many were measured
  Reasons reasons = {};   // of undecided comparisons; if empty, all in `unbeaten` are as fast
  double lead = 0;        // median of the next one over that of the fastest; 0: there is none
  bool is_apart = false;  // undecided only because the machine is in doubt

  bool won() const { return unbeaten.size() == 1; }
};

// Returns the sizes that at least two implementations tried and at least one ran.
std::vector<Contest> contests_of(std::span<const LengthGroup> groups, const char* phase,
                                 Verdicts& verdicts);

// "flash is the fastest forward at all 4 sizes"; empty if two ran at no size.
std::string wins_words(const std::vector<Contest>& contests, const char* phase);

// Returns a rule for all lengths, or one that changes once: "use naive at S 256, and flash from S
// 1024 to 4096". No contest contradicts it, and more than half decide it. Without a rule, says so;
// returns an empty string if nothing is decided.
struct Advice {
  std::string text = {};
  bool is_rule = false;
};
Advice advice_of(std::vector<Contest> contests);

// The answer of a section: what to use, by how much it is faster, and how certain that is.
struct FastestAnswer {
  std::string text = {};  // empty: nothing was compared
  Certainty certainty = {};
  std::string why_undecided = {};  // undecided_note()
};
FastestAnswer fastest_answer(const ReportContext& context, const LengthStudy& study);

// One line per size and phase: the fastest, the others in `unbeaten`, and why it is undecided.
ReportTable fastest_table(const ReportContext& context, const LengthStudy& study);

// Counts of verdicts on several comparisons.
struct Judged {
  size_t compared = 0, undecided = 0;
  size_t apart = 0;  // undecided only because the machine is in doubt
  Reasons reasons = {};

  void add(const Judgement& judgement);
};
// decided: all comparisons are; partly: more than half are; disturbed: most of the undecided are so
// only because of the machine; else undecided.
Certainty certainty_of(const Judged& judged);

// Returns all reasons in one sentence if the certainty leaves any out, else an empty string.
std::string undecided_note(const Judged& judged);
// "decided", "undecided", "undecided: machine in doubt".
std::string sure_word(const Judgement& judgement);

// Returns the speedups at all sizes of a study that both implementations ran.
Speedup speedup_of(const ReportContext& context, const LengthStudy& study, const std::string& base,
                   const std::string& other, const char* phase);

// Returns whether there are at least two implementations and at most kMostImplementations.
bool can_be_compared(const LengthStudy& study);

}  // namespace ridgeline
