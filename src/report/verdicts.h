// Who is faster, for every sentence and figure of a report: asked of the engine behind `ridgeline
// compare` (measure/compare.h) and of nothing else.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "measure/compare.h"

namespace ridgeline {

struct Judgement {
  Verdict verdict = Verdict::unclear;  // of `next` against `base`
  std::string reason = {};             // why it is UNCLEAR; else empty
  bool is_apart = false;  // UNCLEAR only because the machine may have made so large a difference
};

// What a doubt says where each side ran once: how far apart such runs lie is assumed, and wide.
inline constexpr std::string_view kOneRunEach = "of one run each";
// Why a line of a comparison is UNCLEAR.
std::string doubt_words(const RowComparison& row);

// Of two rows that differ in what is compared only, one of `lines` that are (CompareOptions).
// Whatever they hold, this does not throw.
Judgement verdict_between(const Record& base, const Record& next, std::string_view phase,
                          const NoiseLookup& noise = {}, size_t lines = 0);

// Those of `ridgeline compare --impl A,B` on the same rows, remembered: a report asks about a pair
// in several places. Records must stay where they are, and their runs are merged.
class Verdicts {
 public:
  explicit Verdicts(std::span<const Record> rows = {}, NoiseLookup noise = {})
      : rows_(rows), noise_(std::move(noise)) {}
  const Judgement& between(const Record& base, const Record& next, std::string_view phase);

 private:
  size_t lines_between(const std::string& base, const std::string& next);

  std::span<const Record> rows_;
  NoiseLookup noise_;
  std::map<std::pair<std::string, std::string>, size_t> lines_;  // of two implementations
  std::map<std::tuple<const Record*, const Record*, std::string>, Judgement> known_;
};

// A ratio of times, base over new, as people say it: "2.31x" and "3.20x slower".
std::string times_text(double speedup, int decimals = 2);
std::string times_as_fast(double speedup);  // "2.31x as fast", "3.20x slower"

// Why comparisons are undecided, the most frequent reason first; of those that differ in figures
// only, the first.
class Reasons {
 public:
  void add(const std::string& reason);
  void add(const Reasons& other);
  bool empty() const { return counts_.empty(); }
  std::string text() const;  // "too few samples: 3, and 6 are needed; ..."
  // All of them with how often, where there are more than text() tells; else empty.
  std::string all() const;

 private:
  std::vector<std::pair<std::string, int>> sorted() const;

  std::vector<std::pair<std::string, int>> counts_;
};

// Ratios of the same sizes in two implementations, and what the engine says of each.
class Speedup {
 public:
  explicit Speedup(Verdicts& verdicts) : verdicts_(&verdicts) {}

  // Nothing where one of the two did not run. `place` names the size.
  void add(const Record* base, const Record* next, std::string_view phase,
           const std::string& place);

  int count() const { return count_; }
  int undecided() const { return undecided_; }
  // A mean of mostly undecided ratios is not a result.
  bool mostly_decided() const { return 2 * undecided_ < count_; }
  double mean() const;  // geometric
  const Reasons& reasons() const { return reasons_; }
  // "2.31x as fast (geometric mean over 4 sizes, 1 of them undecided; from ... to ...)".
  std::string words() const;

 private:
  struct Extreme {
    double ratio = 0;
    std::string place = {};
  };
  Verdicts* verdicts_;
  double log_sum_ = 0;
  int count_ = 0, undecided_ = 0;
  bool same_ = false;  // the verdict of the only size
  Extreme least_, most_;
  Reasons reasons_;
};

}  // namespace ridgeline
