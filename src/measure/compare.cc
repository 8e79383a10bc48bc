#include "measure/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "measure/record_text.h"

namespace ridgeline {
namespace {

constexpr size_t kMinSamples = kMinIntervalSamples;
// A busy machine: processes that want to run, per core.
constexpr double kBusyLoad = 0.5;
// Shorter times are mostly those of starting threads, and of where the processor's clock stood.
constexpr double kShortMs = 1;

constexpr std::pair<Verdict, std::string_view> kVerdicts[] = {{Verdict::same, "SAME"},
                                                              {Verdict::faster, "FASTER"},
                                                              {Verdict::slower, "SLOWER"},
                                                              {Verdict::unclear, "UNCLEAR"}};

struct PairingFacts {
  Pairing pairing;
  std::string_view name;
  double assumed_noise;
  int looks;
};
// Two runs of one build minutes apart differ by several percent on a shared machine, and their
// intervals do not know it; those of rounds do.
constexpr PairingFacts kPairings[] = {{Pairing::interleaved, "interleaved", 0.01, kLooks},
                                      {Pairing::separate, "separate", 0.05, 1}};

const PairingFacts& facts_of(Pairing pairing) {
  return pairing == kPairings[0].pairing ? kPairings[0] : kPairings[1];
}

std::string describe(const Record& record) {
  return printable(fmt::format("{} {}", record.study, record.implementation), 60) +
         values_text(record.workload);
}

// "threads 1 against 2", or nothing. What one side alone has counts unless implementations differ.
std::string setting_difference(const Record& base, const Record& next) {
  const bool same_kind = base.implementation == next.implementation;
  for (const auto& [key, value] : base.settings.items()) {
    const auto other = next.settings.find(key);
    if (other == next.settings.end() ? same_kind : *other != value)
      return fmt::format("{} {} against {}", printable(key, 40), value_text(value),
                         other == next.settings.end() ? "none" : value_text(*other));
  }
  for (const auto& [key, value] : next.settings.items())
    if (same_kind && !base.settings.contains(key))
      return fmt::format("{} none against {}", printable(key, 40), value_text(value));
  return {};
}

Record without_samples(Record record) {
  for (Series& series : record.series) series.samples_ms.clear();
  return record;
}

// Empty: these samples are times.
std::string defect(std::span<const double> samples) {
  for (const double sample : samples)
    if (!std::isfinite(sample) || sample < 0)
      return fmt::format("a sample of {} ms is no time", sample);
  if (samples.size() < kMinSamples)
    return fmt::format("{} samples; at least {} are needed", samples.size(), kMinSamples);
  return {};
}

// One phase of a pair of rows, before its statistics.
struct Pair {
  const Record* base;
  const Record* next;
  std::string phase;
  std::span<const double> base_ms, new_ms;
  const std::vector<double>* log_ratios = nullptr;  // of sides in turns
};

std::string state(const char* side, const Record& record) {
  return fmt::format("{} is {}{}{}", side, status_csv_word(record.status),
                     record.error.empty() ? "" : ": ", printable(record.error, 120));
}

bool is_assumed(const NoiseFloor& noise) {
  return noise.source == assumed_noise(Pairing::separate).source;
}

bool is_busy(const MachineFacts& machine) {
  return machine.load_average.value_or(0) > kBusyLoad * std::max(1, machine.logical_cores);
}

// Why two runs apart say nothing as long as nobody has measured how far such runs lie apart; empty:
// they do say something.
std::string doubt(const RowComparison& row) {
  if (std::min(row.base_ms, row.new_ms) < kShortMs)
    return fmt::format("under {:.3g} ms, measured apart, and no noise floor is stored", kShortMs);
  if (is_busy(row.base.machine) || is_busy(row.next.machine))
    return "other work was running, measured apart, and no noise floor is stored";
  return {};
}

RowComparison compare_pair(const Pair& pair, double confidence, Pairing pairing,
                           const CompareOptions& options) {
  RowComparison row;
  row.base = without_samples(*pair.base);
  row.next = without_samples(*pair.next);
  row.phase = pair.phase;
  for (const auto& [side, record] : {std::pair("the base", pair.base), {"the new one", pair.next}})
    if (record->status != Status::ok)
      row.note += (row.note.empty() ? "" : "; ") + state(side, *record);
  if (!row.note.empty()) return row;
  for (const auto& [side, samples] :
       {std::pair("the base", pair.base_ms), {"the new one", pair.new_ms}})
    if (const std::string problem = defect(samples); !problem.empty()) {
      row.note = fmt::format("{}: {}", side, problem);
      return row;
    }
  row.base_ms = summarize(pair.base_ms).median_ms;
  row.new_ms = summarize(pair.new_ms).median_ms;
  row.log_time = pair.log_ratios ? paired_shift(*pair.log_ratios, confidence)
                                 : unpaired_shift(logarithms(pair.base_ms), logarithms(pair.new_ms),
                                                  confidence);
  row.noise =
      options.noise ? options.noise(*pair.base, pair.phase, pairing) : assumed_noise(pairing);
  row.verdict = decide(row.log_time, std::max(row.noise.fraction, options.tolerance));
  if (pairing == Pairing::separate && is_assumed(row.noise)) row.note = doubt(row);
  if (!row.note.empty()) row.verdict = Verdict::unclear;
  if (!std::isfinite(row.log_time.low))
    row.note = fmt::format("too few {} for an interval of {:.4g} %",
                           pair.log_ratios ? "rounds" : "samples", 100 * confidence);
  return row;
}

// What all ways of comparing end with.
Comparison compare_pairs(const std::vector<Pair>& pairs, Pairing pairing,
                         const CompareOptions& options) {
  Comparison comparison;
  comparison.pairing = pairing;
  comparison.confidence = confidence_for(pairs.size(), facts_of(pairing).looks);
  for (const Pair& pair : pairs)
    comparison.rows.push_back(compare_pair(pair, comparison.confidence, pairing, options));
  const auto assumed =
      std::find_if(comparison.rows.begin(), comparison.rows.end(),
                   [](const RowComparison& row) { return row.verdict && is_assumed(row.noise); });
  if (assumed != comparison.rows.end())
    comparison.notes.push_back(
        fmt::format("no noise floor of this machine is stored: {:.3g} % is assumed; `ridgeline "
                    "noise` measures it",
                    100 * assumed->noise.fraction));
  for (const auto& [side, record] :
       {std::pair("the base", &RowComparison::base), {"the new side", &RowComparison::next}}) {
    const auto busy = std::find_if(comparison.rows.begin(), comparison.rows.end(),
                                   [&](const auto& row) { return is_busy((row.*record).machine); });
    if (busy == comparison.rows.end()) continue;
    const MachineFacts& machine = ((*busy).*record).machine;
    comparison.notes.push_back(
        fmt::format("other work was running beside {}: a load of {:.1f} on {} cores", side,
                    *machine.load_average, machine.logical_cores));
  }
  return comparison;
}

// Rows by what identifies them; the later of two counts, in the order of first sight.
struct Keyed {
  std::vector<std::string> order;
  std::map<std::string, const Record*> by_key;
};

template <class KeyOf>
Keyed keyed(std::span<const Record> records, const KeyOf& key_of) {
  Keyed out;
  for (const Record& record : records)
    if (const auto key = key_of(record)) {
      if (!out.by_key.contains(*key)) out.order.push_back(*key);
      out.by_key[*key] = &record;
    }
  return out;
}

// Names that stand for both of two implementations that are compared with each other.
std::optional<std::string> row_key(const Record& record, bool with_settings,
                                   const std::optional<std::string>& implementation) {
  if (implementation && record.implementation != *implementation) return std::nullopt;
  Record key;
  key.study = record.study;
  key.device = record.device;
  key.workload = record.workload;
  if (!implementation) key.implementation = record.implementation;
  if (with_settings) key.settings = record.settings;
  // How a row was measured belongs to the workload even where settings may differ.
  else if (record.settings.contains("mode"))
    key.settings["mode"] = record.settings["mode"];
  return workload_key(key);
}

struct Side {
  Keyed exact, loose;
};

Side side_of(std::span<const Record> records, const std::optional<std::string>& implementation) {
  return {keyed(records, [&](const Record& r) { return row_key(r, true, implementation); }),
          keyed(records, [&](const Record& r) { return row_key(r, false, implementation); })};
}

void check_comparable(const Record& base, const Record& next, const CompareOptions& options,
                      std::vector<std::string>& notes) {
  const auto differ = [&](const std::string& what, const std::string& next_step) {
    if (!options.force) throw Error(ErrorKind::usage, what, next_step);
    if (std::find(notes.begin(), notes.end(), what) == notes.end()) notes.push_back(what);
  };
  const std::string& a = base.machine.fingerprint;
  const std::string& b = next.machine.fingerprint;
  if (a != b)
    differ(fmt::format("the two sides ran on different machines: '{}' ({}) and '{}' ({})",
                       printable(base.machine.cpu_model, 60), printable(a, 20),
                       printable(next.machine.cpu_model, 60), printable(b, 20)),
           "measure both on one machine, or compare anyway with --force");
  if (const std::string difference = setting_difference(base, next); !difference.empty())
    differ(
        fmt::format("the two sides have different settings: {} ({})", difference, describe(base)),
        "run both with the same flags, or compare anyway with --force");
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  for (const auto& [candidate, name] : kVerdicts)
    if (candidate == verdict) return name;
  throw Error(ErrorKind::internal, "a verdict without a name");
}

std::string_view pairing_name(Pairing pairing) {
  return facts_of(pairing).name;
}

NoiseFloor assumed_noise(Pairing pairing) {
  return {facts_of(pairing).assumed_noise, "assumed"};
}

double RowComparison::speedup() const {
  return std::exp(-log_time.estimate);
}
double RowComparison::speedup_low() const {
  return std::exp(-log_time.high);
}
double RowComparison::speedup_high() const {
  return std::exp(-log_time.low);
}
double RowComparison::improvement_percent() const {
  return 100 * (1 - std::exp(log_time.estimate));
}
double RowComparison::slowdown() const {
  return std::expm1(log_time.estimate);
}
bool RowComparison::judged() const {
  return verdict && note.empty();
}
bool RowComparison::broke() const {
  return base.status == Status::ok && next.status != Status::ok;
}

std::optional<Shift> Comparison::mean_log_time() const {
  Shift mean{0, 0, 0};
  int count = 0;
  for (const RowComparison& row : rows) {
    if (!row.judged()) continue;
    mean.estimate += row.log_time.estimate;
    mean.low += row.log_time.low;
    mean.high += row.log_time.high;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return Shift{mean.estimate / count, mean.low / count, mean.high / count};
}

Verdict decide(const Shift& log_time, double band) {
  const double slower = std::log1p(band);
  if (log_time.low > slower) return Verdict::slower;
  if (log_time.high < -slower) return Verdict::faster;
  if (log_time.low > -slower && log_time.high < slower) return Verdict::same;
  return Verdict::unclear;
}

bool is_compared(std::string_view phase) {
  return !phase.ends_with("_host");
}

Comparison compare_records(std::span<const Record> base, std::span<const Record> next,
                           const CompareOptions& options) {
  const auto implementation = [&](auto which) -> std::optional<std::string> {
    if (!options.implementations) return std::nullopt;
    return (*options.implementations).*which;
  };
  using Names = std::pair<std::string, std::string>;
  const Side before = side_of(base, implementation(&Names::first));
  const Side after = side_of(next, implementation(&Names::second));

  std::vector<std::pair<const Record*, const Record*>> rows;
  std::vector<std::string> missing, notes;
  for (const std::string& key : before.exact.order) {
    const Record* record = before.exact.by_key.at(key);
    const auto exact = after.exact.by_key.find(key);
    const auto loose_key = row_key(*record, false, implementation(&Names::first));
    const auto loose = after.loose.by_key.find(*loose_key);
    if (exact != after.exact.by_key.end())
      rows.emplace_back(record, exact->second);
    else if (loose != after.loose.by_key.end())
      rows.emplace_back(record, loose->second);
    else
      missing.push_back(describe(*record));
  }
  if (rows.empty())
    throw Error(ErrorKind::usage,
                fmt::format("no row is in both: the base has {}, the new side {}",
                            before.exact.order.empty()
                                ? "none"
                                : describe(*before.exact.by_key.at(before.exact.order.front())),
                            after.exact.order.empty()
                                ? "none"
                                : describe(*after.exact.by_key.at(after.exact.order.front()))),
                "give results of the same study and sizes; --impl A,B compares implementations");

  std::vector<Pair> pairs;
  for (const auto& [old_row, new_row] : rows) {
    check_comparable(*old_row, *new_row, options, notes);
    bool any = false;
    for (const Series& series : old_row->series) {
      const Series* other = new_row->find_series(series.name);
      if (!is_compared(series.name)) continue;
      if (!other) {
        if (old_row->status == Status::ok && new_row->status == Status::ok)
          missing.push_back(
              fmt::format("{} of {}", printable(series.name, 40), describe(*old_row)));
        continue;
      }
      pairs.push_back({old_row, new_row, series.name, series.samples_ms, other->samples_ms});
      any = true;
    }
    // A row that was not timed on one side still has to be told.
    if (!any) pairs.push_back({old_row, new_row, "", {}, {}});
  }
  Comparison comparison = compare_pairs(pairs, Pairing::separate, options);
  comparison.notes.insert(comparison.notes.begin(), notes.begin(), notes.end());
  comparison.missing = std::move(missing);
  return comparison;
}

Comparison compare_interleaved(const std::vector<PairedRow>& rows, const CompareOptions& options) {
  std::vector<Pair> pairs;
  for (const PairedRow& row : rows) {
    for (const PairedPhase& phase : row.phases)
      if (is_compared(phase.name))
        pairs.push_back(
            {&row.base, &row.next, phase.name, phase.base_ms, phase.new_ms, &phase.log_ratios});
    if (row.phases.empty()) pairs.push_back({&row.base, &row.next, "", {}, {}});
  }
  Comparison comparison = compare_pairs(pairs, Pairing::interleaved, options);
  for (RowComparison& row : comparison.rows)
    if (row.phase.empty() && row.base.status == Status::ok && row.next.status == Status::ok)
      row.note = "its implementation does not take turns; compare two results files instead";
  return comparison;
}

std::vector<bool> settled_rows(const std::vector<PairedRow>& rows, const CompareOptions& options) {
  const Comparison comparison = compare_interleaved(rows, options);
  std::vector<bool> settled;
  auto phase = comparison.rows.begin();  // in the order of rows, each with its phases
  for (const PairedRow& row : rows) {
    const auto compared =
        std::count_if(row.phases.begin(), row.phases.end(),
                      [](const PairedPhase& candidate) { return is_compared(candidate.name); });
    const auto end = phase + (row.phases.empty() ? 1 : compared);
    settled.push_back(std::none_of(phase, end, [](const RowComparison& candidate) {
      return candidate.verdict == Verdict::unclear;
    }));
    phase = end;
  }
  return settled;
}

}  // namespace ridgeline
