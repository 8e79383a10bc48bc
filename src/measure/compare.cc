#include "measure/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/enum_names.h"
#include "base/error.h"
#include "base/printable.h"
#include "measure/quantiles.h"
#include "measure/row_pairs.h"

namespace ridgeline {
namespace {

constexpr const char *kBase = "the base", *kNew = "the new side";

// A verdict on single runs needs as many samples as the interval of a median.
constexpr size_t kMinSamples = kMinIntervalSamples;
// The fewest pooled degrees of freedom for an estimate of the spread of runs.
constexpr int kMinDegrees = 2 * (kFewestRuns - 1);
// Four runs against five reach it by their ranks, with 98.4 %; five against five have 99.2 %.
constexpr double kRankConfidence = 0.98;
// The central share of a single run's samples that must not overlap with the other run's.
constexpr double kCentre = 0.9;
// A side is bimodal if the shift of the medians and that of the first decile (kQuickest, as in
// rounds) differ by more than kTwoModes.
constexpr double kTwoModes = 0.1, kQuickest = 0.1;

constexpr EnumNames<Verdict, Verdict::unclear> kVerdicts("SAME", "FASTER", "SLOWER", "UNCLEAR");
constexpr EnumNames<Pairing, Pairing::separate> kPairings("interleaved", "separate");
constexpr EnumNames<Evidence, Evidence::single> kEvidence("rounds", "runs", "floor", "single");

Record without_samples(Record record) {
  for (Series& series : record.series) series.samples_ms.clear();
  return record;
}

// Returns why the samples are unusable, or an empty string.
std::string defect(std::span<const double> samples, size_t fewest) {
  for (const double sample : samples)
    if (!std::isfinite(sample) || sample < 0)
      return fmt::format("a sample of {} ms is not a valid time", sample);
  if (samples.size() < fewest)
    return fmt::format("{} samples; at least {} are needed", samples.size(), fewest);
  return {};
}

// The times of a phase on one side.
struct SideFigures {
  std::vector<double> log_medians = {};  // one per run
  std::vector<double> samples = {};      // sorted
  double median_ms = Statistics::kUnknown;

  double quantile(double fraction) const {
    return samples[static_cast<size_t>(fraction * static_cast<double>(samples.size() - 1))];
  }
  double log_quickest() const { return log_ms(quantile(kQuickest)); }
};

std::string state(const char* side, const Record& record) {
  return fmt::format("{} is {}{}{}", side, status_csv_word(record.status),
                     record.error.empty() ? "" : ": ", printable(record.error, 120));
}

// Returns nullopt, with the reason in `problem`, if the samples are unusable.
std::optional<SideFigures> figures_of(const Record& record, const std::string& phase, size_t fewest,
                                      std::string& problem) {
  const std::vector<double>& samples = record.find_series(phase)->samples_ms;
  problem = defect(samples, record.merged_runs > 0 ? 1 : fewest);
  if (!problem.empty()) return std::nullopt;
  SideFigures out{.samples = samples};
  std::sort(out.samples.begin(), out.samples.end());
  out.log_medians =
      record.merged_runs > 0 ? samples : std::vector<double>{summarize(samples).median_ms};
  for (double& median : out.log_medians) median = log_ms(median);
  out.median_ms = std::exp(mean_of(out.log_medians));
  return out;
}

double drift_of(double shorter_ms) {
  return std::log1p(kDrift + kStartMs / shorter_ms);
}

Shift around(double estimate, double half_width) {
  return {estimate, estimate - half_width, estimate + half_width};
}

// Returns the half-width of the interval of the difference of means, by Student's t with pooled
// variance, or nullopt if there are too few runs.
std::optional<double> spread_of_runs(const SideFigures& base, const SideFigures& next,
                                     double confidence) {
  double squares = 0, inverse_counts = 0;
  int degrees = 0;
  for (const SideFigures* side : {&base, &next}) {
    const std::vector<double>& figures = side->log_medians;
    squares += squared_deviations(figures);
    degrees += static_cast<int>(figures.size()) - 1;
    inverse_counts += 1 / static_cast<double>(figures.size());
  }
  if (degrees < kMinDegrees) return std::nullopt;
  return student_t_quantile((1 + confidence) / 2, degrees) *
         std::sqrt(squares / degrees * inverse_counts);
}

// Returns the rank-sum interval, from the smallest to the largest difference between a run of each
// side. It is infinite if there are too few runs for kRankConfidence, or if runs were disturbed,
// as consecutive disturbed runs are not independent.
Shift range_of_runs(const RowPair& pair, const SideFigures& base, const SideFigures& next) {
  double orders = 1;  // ways to distribute the ranks of all runs between the sides
  for (size_t i = 1; i <= next.samples.size(); ++i)
    orders *= static_cast<double>(base.samples.size() + i) / static_cast<double>(i);
  Shift range{.low = -INFINITY, .high = INFINITY};
  if (1 - 2 / orders < kRankConfidence || !is_quiet(*pair.base) || !is_quiet(*pair.next))
    return range;
  const auto [base_first, base_last] =
      std::minmax_element(base.log_medians.begin(), base.log_medians.end());
  const auto [next_first, next_last] =
      std::minmax_element(next.log_medians.begin(), next.log_medians.end());
  range.low = *next_first - *base_last;
  range.high = *next_last - *base_first;
  return range;
}

// Describes a difference in processor speed or GPU clock between the sides; empty if there is none
// or it is not recorded.
std::string speed_doubt(const RowPair& pair) {
  const auto base = speed_beside(*pair.base), next = speed_beside(*pair.next);
  if (base && next) {
    const SpeedGap gap = speed_gap(*base, *next);
    if (gap.is_apart())
      return fmt::format("{} beside {}", gap.text(), gap.second_slower ? kNew : kBase);
  }
  const auto clock = [](const Record* side) {
    return side->device_after ? side->device_after->clock_mhz.value_or(0) : 0;
  };
  // The clock before the samples may be that of an idle GPU.
  const double base_mhz = clock(pair.base), next_mhz = clock(pair.next);
  if (base_mhz > 0 && next_mhz > 0 &&
      std::max(base_mhz, next_mhz) > kSpeedApart * std::min(base_mhz, next_mhz))
    return fmt::format("the GPU's clock was {:.0f} MHz beside {} and {:.0f} MHz beside {}",
                       base_mhz, kBase, next_mhz, kNew);
  return {};
}

// Returns why two single runs get no verdict, however far apart; empty if they may get one.
std::string single_doubt(const RowPair& pair) {
  for (const auto& [side, record] : {std::pair(kBase, pair.base), {kNew, pair.next}}) {
    if (!record->disturbance)
      return fmt::format("{} does not say whether its machine was quiet", side);
    if (const std::string other = disturbance_text(*record->disturbance); !other.empty())
      return fmt::format("{} beside {}", other, side);
    if (record->device != "cpu") continue;
    if (!record->speed_after)
      return fmt::format("{} does not say how fast its processors were", side);
    if (!record->speed_before) continue;
    const SpeedGap change = speed_gap(*record->speed_before, *record->speed_after);
    if (change.is_apart())
      return fmt::format("{} {} {}", change.text(),
                         change.second_slower ? "after the samples of" : "before the samples of",
                         side);
  }
  return speed_doubt(pair);
}

bool is_overlapping(const SideFigures& base, const SideFigures& next) {
  const double tail = (1 - kCentre) / 2;
  return base.quantile(1 - tail) >= next.quantile(tail) &&
         next.quantile(1 - tail) >= base.quantile(tail);
}

void judge_in_turns(RowComparison& row, const RowPair& pair, const CompareOptions& options,
                    double confidence) {
  row.evidence = Evidence::rounds;
  row.base_ms = summarize(pair.rounds->base_ms).median_ms;
  row.new_ms = summarize(pair.rounds->new_ms).median_ms;
  row.log_time = paired_shift(pair.rounds->log_ratios, confidence);
  row.verdict = decide(row.log_time, options.tolerance, options.tolerance);
  // The log ratios of rounds are those of the fastest samples.
  const double by_medians = std::log(row.new_ms / row.base_ms);
  row.two_modes = std::abs(by_medians - row.log_time.estimate) > kTwoModes &&
                  (by_medians < row.log_time.low || by_medians > row.log_time.high);
  if (!std::isfinite(row.log_time.low))
    row.note = fmt::format("too few rounds for an interval of {:.4g} %", 100 * confidence);
}

void judge_apart(RowComparison& row, const RowPair& pair, const CompareOptions& options,
                 double confidence) {
  const bool is_itself = *pair.base == *pair.next;  // a file compared with itself
  const size_t fewest = is_itself ? 1 : kMinSamples;
  std::string problem;
  const auto base = figures_of(*pair.base, pair.phase, fewest, problem);
  if (!base) row.note = fmt::format("{}: {}", kBase, problem);
  const auto next = figures_of(*pair.next, pair.phase, fewest, problem);
  if (!next) row.note = fmt::format("{}: {}", kNew, problem);
  if (!base || !next) return;
  row.base_ms = base->median_ms;
  row.new_ms = next->median_ms;
  row.base_runs = static_cast<int>(base->log_medians.size());
  row.new_runs = static_cast<int>(next->log_medians.size());
  if (is_itself) {
    row.evidence = row.base_runs > 1 ? Evidence::runs : Evidence::single;
    row.verdict = Verdict::same;
    return;
  }
  const double estimate = std::log(row.new_ms / row.base_ms);
  row.two_modes = std::abs(next->log_quickest() - base->log_quickest() - estimate) > kTwoModes;
  const auto spread = spread_of_runs(*base, *next, confidence);
  if (options.noise) row.noise = options.noise(*pair.base, pair.phase);
  std::string machine;  // how it may explain the difference
  if (spread) {
    row.evidence = Evidence::runs;
    const Shift range = range_of_runs(pair, *base, *next);
    // Beside other work the speed fluctuates, which the spread of the runs already includes.
    if (is_quiet(*pair.base) && is_quiet(*pair.next)) machine = speed_doubt(pair);
    const double drift = drift_of(std::min(row.base_ms, row.new_ms));
    row.log_time = {.estimate = estimate,
                    .low = std::max(estimate - *spread, range.low) - drift,
                    .high = std::min(estimate + *spread, range.high) + drift};
  } else {
    row.evidence = row.noise ? Evidence::floor : Evidence::single;
    row.log_time = around(estimate, std::log1p(row.noise ? row.noise->fraction : kSingleSpread));
    machine = single_doubt(pair);
  }
  row.verdict = decide(row.log_time, options.tolerance, std::max(options.tolerance, kSameApart));
  if (row.verdict == Verdict::unclear) return;
  row.in_doubt = !machine.empty();
  row.note = machine;
  if (!row.in_doubt && row.evidence == Evidence::single && is_overlapping(*base, *next))
    row.note = "samples of the two runs overlap";
  if (!row.note.empty()) row.verdict = Verdict::unclear;
}

RowComparison compare_pair(const RowPair& pair, double confidence, const CompareOptions& options) {
  RowComparison row;
  row.base = without_samples(*pair.base);
  row.next = without_samples(*pair.next);
  row.phase = pair.phase;
  for (const auto& [side, record] : {std::pair(kBase, pair.base), {kNew, pair.next}})
    if (record->status != Status::ok)
      row.note += (row.note.empty() ? "" : "; ") + state(side, *record);
  if (!row.note.empty() || pair.phase.empty()) return row;
  if (pair.rounds)
    judge_in_turns(row, pair, options, confidence);
  else
    judge_apart(row, pair, options, confidence);
  if (!row.verdict) return row;
  if (row.verdict == Verdict::unclear && row.note.empty())
    row.note = fmt::format("differences below {} cannot be seen", percent_text(row.visible()));
  return row;
}

Comparison compare_pairs(const std::vector<RowPair>& pairs, Pairing pairing,
                         const CompareOptions& options) {
  Comparison comparison;
  comparison.pairing = pairing;
  comparison.tolerance = options.tolerance;
  comparison.confidence = confidence_for(std::max(measured_in(pairs), options.lines),
                                         pairing == Pairing::interleaved ? kLooks : 1);
  for (const RowPair& pair : pairs)
    comparison.rows.push_back(compare_pair(pair, comparison.confidence, options));
  return comparison;
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  return kVerdicts[verdict];
}

std::string_view pairing_name(Pairing pairing) {
  return kPairings[pairing];
}

std::string_view evidence_name(Evidence evidence) {
  return kEvidence[evidence];
}

namespace {

bool is_in_means(const RowComparison& row) {
  return row.verdict && std::isfinite(row.log_time.low);
}

}  // namespace

double Comparison::mean_speedup() const {
  double sum = 0;
  int count = 0;
  for (const RowComparison& row : rows) {
    if (!is_in_means(row)) continue;
    sum += std::log(row.speedup());
    ++count;
  }
  return std::exp(sum / std::max(count, 1));
}

std::optional<Shift> Comparison::mean_log_time() const {
  Shift mean{0, 0, 0};
  int count = 0;
  for (const RowComparison& row : rows) {
    if (!is_in_means(row)) continue;
    mean.estimate += row.log_time.estimate;
    mean.low += row.log_time.low;
    mean.high += row.log_time.high;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return Shift{mean.estimate / count, mean.low / count, mean.high / count};
}

Verdict decide(const Shift& log_time, double tolerance, double same) {
  const double beyond = std::log1p(tolerance), inside = std::log1p(same);
  if (log_time.low > beyond) return Verdict::slower;
  if (log_time.high < -beyond) return Verdict::faster;
  if (log_time.low > -inside && log_time.high < inside) return Verdict::same;
  return Verdict::unclear;
}

std::string percent_text(double fraction) {
  constexpr double kWhole = 10;  // percent from which decimals are dropped
  return 100 * fraction < kWhole ? fmt::format("{:.2g} %", 100 * fraction)
                                 : fmt::format("{:.0f} %", 100 * fraction);
}

bool is_compared(std::string_view phase) {
  return !phase.ends_with("_host");
}

size_t lines_between(std::span<const Record> base, std::span<const Record> next,
                     const CompareOptions& options) {
  return measured_in(pair_rows(base, next, options).lines);
}

Comparison compare_records(std::span<const Record> base, std::span<const Record> next,
                           const CompareOptions& options) {
  const std::vector<Record> base_rows = runs_merged(base), new_rows = runs_merged(next);
  RowPairs pairs = pair_rows(base_rows, new_rows, options);
  refuse_nothing_to_compare(pairs, base_rows, new_rows, options);
  std::vector<std::string> notes = check_comparable(pairs.lines, options.force);
  Comparison comparison = compare_pairs(pairs.lines, Pairing::separate, options);
  comparison.notes = std::move(notes);
  comparison.missing = std::move(pairs.missing);
  return comparison;
}

Comparison compare_interleaved(const std::vector<PairedRow>& rows, const CompareOptions& options) {
  std::vector<RowPair> pairs;
  for (const PairedRow& row : rows) {
    for (const PairedPhase& phase : row.phases)
      if (is_compared(phase.name)) pairs.push_back({&row.base, &row.next, phase.name, &phase});
    if (row.phases.empty()) pairs.push_back({&row.base, &row.next, ""});
  }
  Comparison comparison = compare_pairs(pairs, Pairing::interleaved, options);
  for (RowComparison& row : comparison.rows)
    if (row.phase.empty() && row.base.status == Status::ok && row.next.status == Status::ok)
      row.note = "its implementation does not take turns; compare two results files instead";
  return comparison;
}

std::vector<bool> settled_rows(const std::vector<PairedRow>& rows, const CompareOptions& options,
                               const std::function<bool(const RowComparison&)>& decided) {
  const Comparison comparison = compare_interleaved(rows, options);
  std::vector<bool> settled;
  auto phase = comparison.rows.begin();  // comparison.rows lists the phases row by row
  for (const PairedRow& row : rows) {
    const auto compared =
        std::count_if(row.phases.begin(), row.phases.end(),
                      [](const PairedPhase& candidate) { return is_compared(candidate.name); });
    const auto end = phase + (row.phases.empty() ? 1 : compared);
    settled.push_back(std::all_of(phase, end, [&](const RowComparison& candidate) {
      return candidate.verdict != Verdict::unclear && decided(candidate);
    }));
    phase = end;
  }
  return settled;
}

}  // namespace ridgeline
