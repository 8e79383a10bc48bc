// Compares two sets of runs, or interleaved rounds of two programs, and gives a verdict per row.
//
//   Comparison comparison = compare_records(base, next, {.noise = noise_of(history)});
//   for (const RowComparison& row : comparison.rows) ...
//
// The verdict follows from an interval of the shift in log time that includes all uncertainty. An
// interval wholly beyond `tolerance` is FASTER or SLOWER, one wholly inside the SAME band is SAME,
// any other UNCLEAR. Sources of the interval (evidence_name):
//
//   rounds   interleaved sides: one log ratio per round, Wilcoxon's signed ranks
//   runs     several fresh runs per side: Student's t on the logarithms of their medians, or the
//            rank-sum interval where it is narrower, widened by the drift over hours (kDrift,
//            kStartMs); disturbed runs and runs on slower processors are left out where at least
//            three others remain
//   floor    one run per side, and a noise floor of the same row
//   single   one run per side and no floor: kSingleSpread, and a verdict only where both ran on a
//            quiet machine and the central 90 % of their samples do not overlap
//
// Separately measured sides whose processor speeds (processor_speed.h) or GPU clocks differ get
// UNCLEAR: a slow machine looks like more work.
#pragma once

#include <algorithm>
#include <cmath>
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

// Upper bound on the difference between two single runs of the same row.
struct NoiseFloor {
  double fraction = 0;
  std::string source;  // as displayed: "12 runs"
};
// Returns the noise floor of one phase of a row, or nullopt if none was measured.
using NoiseLookup = std::function<std::optional<NoiseFloor>(const Record&, std::string_view phase)>;

// Half-width of the interval between two single runs without a noise floor, as a fraction. Of
// consecutive runs of one binary on a quiet shared host, 1 % differed by more.
inline constexpr double kSingleSpread = 0.5;
// Variation that consecutive runs of a side do not show: drift over hours, as a fraction, and
// thread start, which takes a virtual machine this much longer for minutes at a time.
inline constexpr double kDrift = 0.05, kStartMs = 0.025;
// The SAME band of separately measured sides; for interleaved sides it is the tolerance.
inline constexpr double kSameApart = 0.15;

// Settings that are axes of a study, as its sizes are, by study name; "" applies to all studies not
// named. Rows that differ in an axis are never compared, even with `force`.
using StudyAxes = std::map<std::string, std::vector<std::string>, std::less<>>;

struct CompareOptions {
  StudyAxes axes = {};
  NoiseLookup noise = {};   // empty: no floors
  double tolerance = 0.01;  // smaller differences are negligible, even if significant
  bool force = false;       // compare across machines and settings
  // Compares these two implementations with each other instead of each with itself.
  std::optional<std::pair<std::string, std::string>> implementations = {};
  // Lines of the whole comparison (lines_between) if this is a part of one: the confidence of each
  // row then accounts for all of them. 0: this is the whole comparison.
  size_t lines = 0;
};

struct RowComparison {
  Record base, next;  // without their samples
  int base_runs = 1, new_runs = 1;
  std::string phase;
  // Medians; for several runs, the geometric mean of their medians.
  double base_ms = Statistics::kUnknown, new_ms = Statistics::kUnknown;
  Shift log_time;  // log(new / base) with its confidence interval
  Evidence evidence = Evidence::single;
  std::optional<NoiseFloor> noise = {};
  std::optional<Verdict> verdict;  // empty: not measured on both sides
  std::string note;                // why there is no verdict, or why it is UNCLEAR
  bool in_doubt = false;           // the machine may explain the difference; the note says how
  // The medians and the fastest samples (or runs) show different shifts: a side is bimodal.
  bool two_modes = false;

  double speedup() const { return base_ms / new_ms; }  // of the two medians
  double speedup_low() const { return std::exp(-log_time.high); }
  double speedup_high() const { return std::exp(-log_time.low); }
  // Time saved; negative: slower.
  double improvement_percent() const { return 100 * (1 - new_ms / base_ms); }
  // New over base minus one: 0.05 for 5 % slower.
  double slowdown() const { return std::expm1(log_time.estimate); }
  // The smallest detectable slowdown: 0.05 for 5 %.
  double visible() const {
    return std::expm1(
        std::max(log_time.high - log_time.estimate, log_time.estimate - log_time.low));
  }
  // Has a verdict other than UNCLEAR.
  bool judged() const { return verdict && verdict != Verdict::unclear; }
  // Ok in the base, not ok now.
  bool broke() const { return base.status == Status::ok && next.status != Status::ok; }
};

struct Comparison {
  std::vector<RowComparison> rows;
  std::vector<std::string> missing = {};  // descriptions of rows and phases only in the base
  std::vector<std::string> notes = {};    // differences that --force accepted
  Pairing pairing = Pairing::separate;
  double confidence = 0;  // of each row's interval
  double tolerance = 0;
  // Returns the mean shift over rows measured on both sides, or nullopt if there are none. Its
  // bounds are the means of the rows' bounds, so they hold whenever those do, even under a
  // disturbance that all rows share.
  std::optional<Shift> mean_log_time() const;
  // The geometric mean of the same rows' speedups, which in turns is not that of the rounds.
  double mean_speedup() const;
};

// Pairs rows by study, implementation, device, workload and settings, after merging runs. Throws a
// usage error for different machines or settings unless forced, and if no row is in both.
Comparison compare_records(std::span<const Record> base, std::span<const Record> next,
                           const CompareOptions& options);

// Returns how many lines of a comparison are measured on both sides, which determines the
// confidence of each. The runs of each row must have been merged.
size_t lines_between(std::span<const Record> base, std::span<const Record> next,
                     const CompareOptions& options);

// Accepts all differences in settings: the user chose the two interleaved commands.
Comparison compare_interleaved(const std::vector<PairedRow>& rows, const CompareOptions& options);

// For RoundOptions::settled. Returns, per row, whether no phase is UNCLEAR and `decided` holds for
// all of them.
std::vector<bool> settled_rows(const std::vector<PairedRow>& rows, const CompareOptions& options,
                               const std::function<bool(const RowComparison&)>& decided);

// The verdict of an interval; `same` is the half-width of the SAME band.
Verdict decide(const Shift& log_time, double tolerance, double same);

// "4.2 %", "150 %".
std::string percent_text(double fraction);

// False for series "*_host", which time how long calls take to return.
bool is_compared(std::string_view phase);

}  // namespace ridgeline
