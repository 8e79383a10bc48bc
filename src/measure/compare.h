// Is it faster? Verdicts per row from two sets of distributions and the noise floor of the machine.
//
//   Comparison comparison = compare_records(base, next, {.noise = noise_of(history)});
//   for (const RowComparison& row : comparison.rows) ...
//
// The rule, on logarithms of time: an interval of the shift by ranks, and a band of differences
// that are nobody's business, which is the noise floor or `tolerance` if that is more. An interval
// wholly beyond the band is FASTER or SLOWER, one wholly inside is SAME, any other UNCLEAR.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/rank_interval.h"
#include "measure/record.h"
#include "measure/rounds.h"

namespace ridgeline {

enum class Verdict { same, faster, slower, unclear };
std::string_view verdict_name(Verdict verdict);  // "SAME", ...

// How two sides were measured, which decides how far they differ by chance.
enum class Pairing { interleaved, separate };
std::string_view pairing_name(Pairing pairing);  // "interleaved", "separate"

// Which differences the machine shows when nothing differs.
struct NoiseFloor {
  double fraction = 0;
  std::string source;  // for people: "20 self-comparisons", "assumed"
};
// Of one phase of a row. Where nothing was measured: assumed_noise().
using NoiseLookup = std::function<NoiseFloor(const Record&, std::string_view phase, Pairing)>;
NoiseFloor assumed_noise(Pairing pairing);

struct CompareOptions {
  NoiseLookup noise = {};   // empty: the assumed floors
  double tolerance = 0.01;  // differences that are nobody's business even where noise is less
  bool force = false;       // compare across machines and settings
  // Compares these two implementations with each other instead of each with itself.
  std::optional<std::pair<std::string, std::string>> implementations = {};
};

struct RowComparison {
  Record base, next;  // without their samples
  std::string phase;
  double base_ms = Statistics::kUnknown, new_ms = Statistics::kUnknown;  // medians
  Shift log_time;  // of new over base, by rounds or batches
  NoiseFloor noise;
  std::optional<Verdict> verdict;  // empty: not measured on both sides
  std::string note;                // why there is no verdict, or none that counts

  double speedup() const;  // base over new; its interval beside it
  double speedup_low() const;
  double speedup_high() const;
  double improvement_percent() const;  // of time saved; negative: slower
  double slowdown() const;             // new over base less one: 0.05 for 5 % slower
  bool judged() const;                 // has a verdict, and no note against it
  bool broke() const;                  // ok in the base, not ok now
};

struct Comparison {
  std::vector<RowComparison> rows;
  std::vector<std::string> missing;  // rows and phases that only the base has, in words
  std::vector<std::string> notes;    // what a reader should know: --force, load, assumed noise
  Pairing pairing = Pairing::separate;
  double confidence = 0;  // of each row's interval
  // Of the rows that were judged; empty: none was. Its bounds are the means of theirs and hold
  // whenever those do, whatever disturbed all rows alike.
  std::optional<Shift> mean_log_time() const;
};

// Pairs rows by study, implementation, device, workload and settings; of a row measured twice the
// later one counts. Throws a usage error for different machines or settings unless forced, and when
// no row is in both.
Comparison compare_records(std::span<const Record> base, std::span<const Record> next,
                           const CompareOptions& options);

// Sides that were measured in turns differ in what the user asked for: nothing is refused.
Comparison compare_interleaved(const std::vector<PairedRow>& rows, const CompareOptions& options);

// Which rows have a verdict, or can have none: for RoundOptions::settled.
std::vector<bool> settled_rows(const std::vector<PairedRow>& rows, const CompareOptions& options);

// The rule itself.
Verdict decide(const Shift& log_time, double band);

// Series that are compared: not those of the host, which time how long a call took to return.
bool is_compared(std::string_view phase);

}  // namespace ridgeline
