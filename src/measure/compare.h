// Is it faster? Verdicts per row from two sets of runs, or from rounds in which both took turns.
//
//   Comparison comparison = compare_records(base, next, {.noise = noise_of(history)});
//   for (const RowComparison& row : comparison.rows) ...
//
// The rule, on logarithms of time: an interval of the shift that holds all that is uncertain, and
// three bands. An interval wholly beyond `tolerance` is FASTER or SLOWER, one wholly inside the
// band of SAME is SAME, any other UNCLEAR. Where the interval comes from (evidence_name):
//
//   rounds   sides in turns: one figure per round, by signed ranks
//   runs     several fresh runs a side: Student's t on the logarithms of their medians, whose
//            spread the runs themselves show, or where it is narrower the interval of rank sums,
//            widened by how far two hours lie apart (kDrift, kStartMs); runs that other work
//            disturbed, or whose processors were slower, are left out where three others are there
//   floor    one run a side, and a noise floor of that very row
//   single   one run a side and no floor: kSingleSpread, and a verdict only where both ran on a
//            quiet machine and the central 90 % of their samples do not overlap
//
// Sides apart whose processors were not as fast (processor_speed.h), or whose GPUs had other
// clocks, have no verdict: neither would twice the work look different.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/merged_runs.h"
#include "measure/rank_interval.h"
#include "measure/record.h"
#include "measure/rounds.h"

namespace ridgeline {

enum class Verdict { same, faster, slower, unclear };
std::string_view verdict_name(Verdict verdict);  // "SAME", ...

enum class Pairing { interleaved, separate };
std::string_view pairing_name(Pairing pairing);  // "interleaved", "separate"

enum class Evidence { rounds, runs, floor, single };
std::string_view evidence_name(Evidence evidence);  // "rounds", ...

// By how much two single runs of one row lie apart when nothing differs, at most.
struct NoiseFloor {
  double fraction = 0;
  std::string source;  // for people: "12 runs"
};
// Of one phase of that row; empty: none was measured of it.
using NoiseLookup = std::function<std::optional<NoiseFloor>(const Record&, std::string_view phase)>;

// Two single runs without a noise floor are told apart from this factor on. Of runs of one binary
// on a quiet shared host, 1 % of neighbours lay further apart than that.
inline constexpr double kSingleSpread = 0.5;
// What several runs of a side do not show, because they follow each other: another hour, and the
// start of threads, which for minutes at a time takes a virtual machine so much longer.
inline constexpr double kDrift = 0.05, kStartMs = 0.025;
// Inside of this two sides measured apart are SAME; in turns it is the tolerance.
inline constexpr double kSameApart = 0.15;

// Settings that are axes of a study, as its sizes are, by the study's name: rows that differ in one
// of them are never compared, whatever is forced. Under "": those of all studies not named.
using StudyAxes = std::map<std::string, std::vector<std::string>, std::less<>>;

struct CompareOptions {
  StudyAxes axes = {};
  NoiseLookup noise = {};   // empty: no floors
  double tolerance = 0.01;  // smaller differences are negligible, even where they can be seen
  bool force = false;       // compare across machines and settings
  // Compares these two implementations with each other instead of each with itself.
  std::optional<std::pair<std::string, std::string>> implementations = {};
  // Of the whole comparison, for those who ask about a part of it at a time (lines_between): the
  // verdict on a row is then what it is among all. 0: this is the whole.
  size_t lines = 0;
};

struct RowComparison {
  Record base, next;  // without their samples
  int base_runs = 1, new_runs = 1;
  std::string phase;
  // Medians; of several runs their geometric mean.
  double base_ms = Statistics::kUnknown, new_ms = Statistics::kUnknown;
  Shift log_time;  // of new over base; its interval holds all that is uncertain
  Evidence evidence = Evidence::single;
  std::optional<NoiseFloor> noise = {};
  std::optional<Verdict> verdict;  // empty: not measured on both sides
  std::string note;                // why there is no verdict, or none that decides
  bool in_doubt = false;           // the machine may have made the difference, as the note says
  // The medians and the quickest samples, or runs, tell of different shifts: a side has two modes.
  bool two_modes = false;

  double speedup() const;  // base over new, of the two medians
  double speedup_low() const;
  double speedup_high() const;
  double improvement_percent() const;  // of time saved; negative: slower
  double slowdown() const;             // new over base less one: 0.05 for 5 % slower
  double visible() const;              // the smallest slowdown that would have been seen; 0.05: 5 %
  bool judged() const;                 // has a verdict other than UNCLEAR
  bool broke() const;                  // ok in the base, not ok now
};

struct Comparison {
  std::vector<RowComparison> rows;
  std::vector<std::string> missing = {};  // rows and phases that only the base has, in words
  std::vector<std::string> notes = {};    // what a reader should know: --force, other work
  Pairing pairing = Pairing::separate;
  double confidence = 0;  // of each row's interval
  double tolerance = 0;
  // Of the rows that were measured on both sides; empty: none was. Its bounds are the means of
  // theirs and hold whenever those do, whatever disturbed all rows alike.
  std::optional<Shift> mean_log_time() const;
};

// Pairs rows by study, implementation, device, workload and settings; runs are merged first. Throws
// a usage error for different machines or settings unless forced, and when no row is in both.
Comparison compare_records(std::span<const Record> base, std::span<const Record> next,
                           const CompareOptions& options);

// How many lines of a comparison are measured on both sides, of rows whose runs are merged: their
// number says how sure each has to be.
size_t lines_between(std::span<const Record> base, std::span<const Record> next,
                     const CompareOptions& options);

// Sides that were measured in turns differ in what the user asked for: nothing is refused.
Comparison compare_interleaved(const std::vector<PairedRow>& rows, const CompareOptions& options);

// Whether all phases of a row have a verdict, or can have none, and `decided` says so too of each:
// for RoundOptions::settled. One answer per row.
std::vector<bool> settled_rows(const std::vector<PairedRow>& rows, const CompareOptions& options,
                               const std::function<bool(const RowComparison&)>& decided);

// The rule itself.
Verdict decide(const Shift& log_time, double tolerance, double same);

// "4.2 %", "150 %".
std::string percent_text(double fraction);

// Series that are compared: not those of the host, which time how long a call took to return.
bool is_compared(std::string_view phase);

}  // namespace ridgeline
