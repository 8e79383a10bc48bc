// Verdicts for the sentences and figures of a report. All of them come from the engine of
// `ridgeline compare` (measure/compare.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "measure/compare.h"
#include "measure/record_values.h"

namespace ridgeline {

struct Judgement {
  Verdict verdict = Verdict::unclear;  // of `next` against `base`
  std::string reason = {};             // why it is UNCLEAR; else empty
  bool is_apart = false;  // UNCLEAR only because the machine may explain so large a difference
};

// Begins the reason if each side ran once: the spread between such runs is assumed, and wide.
inline constexpr std::string_view kOneRunEach = "of one run each";
// Returns why a line of a comparison is UNCLEAR.
std::string doubt_words(const RowComparison& row);

// Compares one phase of two rows that differ only in what is compared. `lines` is the number of
// lines of the whole comparison (CompareOptions). An Error becomes an UNCLEAR verdict's reason.
Judgement verdict_between(const Record& base, const Record& next, std::string_view phase,
                          const NoiseLookup& noise = {}, size_t lines = 0);

// The verdicts of `ridgeline compare --impl A,B` on the same rows, cached because a report needs a
// pair in several places. Records must not move, and their runs must be merged already.
class Verdicts {
 public:
  explicit Verdicts(std::span<const Record> rows = {}, NoiseLookup noise = {})
      : rows_(rows), noise_(std::move(noise)) {}
  const Judgement& between(const Record& base, const Record& next, std::string_view phase);

 private:
  size_t lines_between(const std::string& base, const std::string& next);

  std::span<const Record> rows_;
  NoiseLookup noise_;
  std::map<std::pair<std::string, std::string>, size_t> lines_;  // by implementations
  std::map<std::tuple<const Record*, const Record*, std::string>, Judgement> known_;
};

// The notes of a study with verdicts on pairs of its own records.
template <std::vector<std::string> (*notes)(const RecordRefs&, Verdicts&)>
std::vector<std::string> with_verdicts(std::span<const Record> records) {
  Verdicts verdicts(records);
  return notes(records, verdicts);
}

// Formats a ratio of times, base over new: "2.31x", "3.20x slower".
std::string times_text(double speedup, int decimals = 2);
std::string times_as_fast(double speedup);  // "2.31x as fast", "3.20x slower"

// Counts the reasons why comparisons are undecided. Reasons that differ only in figures count as
// one, which shows the figures of the first.
class Reasons {
 public:
  void add(const std::string& reason);
  void add(const Reasons& other);
  bool empty() const { return counts_.empty(); }
  std::string text() const;  // the most frequent: "too few samples: 3, and 6 are needed; ..."
  // Returns all reasons with their counts if text() leaves any out, else an empty string.
  std::string all() const;

 private:
  std::vector<std::pair<std::string, int>> sorted() const;

  std::vector<std::pair<std::string, int>> counts_;
};

// Speedups of one implementation over another at several sizes, with the verdict on each.
class Speedup {
 public:
  explicit Speedup(Verdicts& verdicts) : verdicts_(&verdicts) {}

  // Ignores a size at which either row was not measured. `place` names the size.
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
  bool same_ = false;  // whether the last verdict is SAME; used if there is one size
  Extreme least_, most_;
  Reasons reasons_;
};

}  // namespace ridgeline
