// Who is fastest at which length, and which rule follows from that.
#pragma once

#include <string>
#include <vector>

#include "report/page/rows.h"
#include "report/verdicts.h"

namespace ridgeline {

// One that the fastest of a pass is compared with.
struct Rival {
  std::string name = {};
  double ratio = 0;  // so many times as fast is the fastest by the medians
  Judgement judgement = {};
};

// One pass of one size that several implementations tried.
struct Contest {
  int64_t seq_len = 0;
  // The one with the smallest median, and those that it is not FASTER than. One: it wins, because
  // it is FASTER than every other, or the others cannot run at all.
  std::vector<std::string> unbeaten = {};
  std::vector<Rival> rivals = {};  // all others that were measured
  size_t ran = 0;                  // how many were measured
  Reasons reasons = {};   // of the comparisons that are undecided; empty beside rivals: as fast
  double lead = 0;        // so many times as fast as the next one by the medians; 0: there is none
  bool is_apart = false;  // undecided, though all that were measured lie far enough behind

  bool won() const { return unbeaten.size() == 1; }
};

// Sizes that at least two have tried, and at least one has run.
std::vector<Contest> contests_of(const LengthStudy& study, const char* phase, Verdicts& verdicts);

// "flash is the fastest forward at all 4 sizes"; empty: no size has two that ran.
std::string wins_words(const std::vector<Contest>& contests, const char* phase);

// "use naive at S 256, and flash from S 1024 to 4096": a rule for all lengths, or one that changes
// once, which no size and no pass speaks against and more than half of them decide. What there is
// instead is said; empty: nothing is decided.
std::string advice_of(std::vector<Contest> contests);

// The same as the answer of a section: what to do, by how much, and how sure.
struct FastestAnswer {
  std::string text = {};  // empty: nothing was compared
  Certainty certainty = {};
  std::string why_undecided = {};  // undecided_note()
};
FastestAnswer fastest_answer(const ReportContext& context, const LengthStudy& study);

// One line per size and pass: who is fastest, who is not slower than that, and why it is undecided.
ReportTable fastest_table(const ReportContext& context, const LengthStudy& study);

// What the engine says of several comparisons.
struct Judged {
  size_t compared = 0, undecided = 0;
  size_t apart = 0;  // of those undecided: large differences of a machine in doubt
  Reasons reasons = {};

  void add(const Judgement& judgement);
};
// "decided" where the engine judged all comparisons, "undecided" where it judged less than half,
// "disturbed" where most of those are only in doubt because of the machine.
Certainty certainty_of(const Judged& judged);

// All reasons in one sentence, where the certainty has no room for them; else empty.
std::string undecided_note(const Judged& judged);
// "decided", "undecided", "undecided: machine in doubt".
std::string sure_word(const Judgement& judgement);

// Ratios of all sizes of a study that both have run.
Speedup speedup_of(const ReportContext& context, const LengthStudy& study, const std::string& base,
                   const std::string& other, const char* phase);

// Two or more, and not so many that no sentence could name them.
bool can_be_compared(const LengthStudy& study);

}  // namespace ridgeline
