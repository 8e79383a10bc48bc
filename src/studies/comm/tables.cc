#include "studies/comm/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "dist/collective.h"
#include "report/record_columns.h"
#include "studies/comm/fit.h"

namespace ridgeline {
namespace {

int64_t whole_of(const Record& record, const char* key) {
  return bounded_integer(number_in(record.workload, key).value_or(0));
}

std::optional<double> median_ms(const Record& record) {
  return statistic(record, kCommPhase, &Statistics::median_ms);
}

// Identifies the rows of one curve over sizes.
std::string curve_key(const Record& record, bool with_backend = true, bool with_ranks = true) {
  std::string key = record.machine.fingerprint;
  for (const char* part : {"collective", "dtype"}) key += '\n' + text_of(record.workload, part);
  if (with_backend) key += '\n' + record.implementation + text_of(record.settings, "launcher");
  if (with_ranks) key += '\n' + text_of(record.workload, "ranks");
  return key;
}

double factor_of(const Record& record) {
  try {
    return bus_factor(parse_collective(text_of(record.workload, "collective")),
                      static_cast<int>(std::max<int64_t>(1, whole_of(record, "ranks"))));
  } catch (const Error&) {
    return 1;  // records come from files
  }
}

// A record, and the fit of its curve if there is one and the row is ok.
struct FittedRow : RecordRow {
  std::optional<CommFit> fit;
};

std::vector<FittedRow> fitted_rows(const std::vector<const Record*>& rows) {
  std::map<std::string, std::vector<CommPoint>> curves;
  for (const Record* record : rows)
    if (const auto ms = median_ms(*record))
      curves[curve_key(*record)].push_back(
          {static_cast<double>(whole_of(*record, "bytes")), *ms / 1e3});
  std::vector<FittedRow> fitted;
  for (const Record* record : rows) {
    FittedRow& row = fitted.emplace_back(FittedRow{{record, kCommPhase}, {}});
    if (record->status == Status::ok)
      row.fit = fit_latency_and_bandwidth(curves[curve_key(*record)], factor_of(*record));
  }
  return fitted;
}

Column<FittedRow> fit_column(const char* name, double CommFit::*which, double factor,
                             const char* format = "{:.6g}") {
  return {name, [=](const FittedRow& row) {
            return row.fit ? cell((*row.fit).*which, format, factor) : std::string();
          }};
}

std::string size_text(const Record& record) {
  return to_string(Bytes{whole_of(record, "bytes")});
}

std::string place(const Record& record) {
  return fmt::format("{} {} of {}, {} ranks", text_of(record.workload, "dtype"),
                     text_of(record.workload, "collective"), size_text(record),
                     text_of(record.workload, "ranks"));
}

// Compares the first backend of each collective, dtype and number of ranks with each other backend,
// over the sizes that both have.
void compare_backends(const std::vector<const Record*>& rows, Verdicts& verdicts,
                      std::vector<std::string>& notes) {
  Reasons reasons;
  int undecided = 0;
  std::map<std::string, std::vector<const Record*>> groups;
  for (const Record* record : rows)
    if (median_ms(*record)) groups[curve_key(*record, false)].push_back(record);
  for (const auto& [key, group] : groups) {
    std::vector<std::string> backends;
    for (const Record* record : group)
      if (std::ranges::find(backends, record->implementation) == backends.end())
        backends.push_back(record->implementation);
    for (size_t i = 1; i < backends.size(); ++i) {
      Speedup speedup(verdicts);
      for (const Record* base : group)
        for (const Record* next : group)
          if (base->implementation == backends[i] && next->implementation == backends[0] &&
              whole_of(*base, "bytes") == whole_of(*next, "bytes"))
            speedup.add(base, next, kCommPhase, size_text(*base));
      if (speedup.count() == 0) continue;
      if (!speedup.mostly_decided()) {
        ++undecided;
        reasons.add(speedup.reasons());
        continue;
      }
      const std::string what =
          fmt::format("{} {} over {} ranks: {}", text_of(group[0]->workload, "dtype"),
                      text_of(group[0]->workload, "collective"),
                      text_of(group[0]->workload, "ranks"), backends[0]);
      notes.push_back(fmt::format("{} against {} is {}", what, backends[i], speedup.words()));
    }
  }
  if (undecided > 0)
    notes.push_back(fmt::format(
        "of backends, {} undecided: {}",
        undecided == 1 ? "1 comparison is" : fmt::format("{} comparisons are", undecided),
        reasons.text()));
}

// Says which sizes of a curve mostly take latency. A crossing of the fit that lies outside of them
// would be an extrapolation, and is not named.
std::string latency_words(double crossing, const std::set<int64_t>& sizes) {
  if (crossing > static_cast<double>(*sizes.rbegin()))
    return "; latency is the larger part at all of these sizes";
  if (crossing < static_cast<double>(*sizes.begin()))
    return "; latency is the smaller part at all of these sizes";
  return fmt::format("; below {} latency is the larger part",
                     to_string(Bytes{bounded_integer(crossing)}));
}

// One note per curve: its fit, and the size below which latency dominates.
void explain_sizes(const std::vector<const Record*>& rows, std::vector<std::string>& notes) {
  std::set<std::string> told;
  std::map<std::string, std::set<int64_t>> sizes;  // measured, by curve
  for (const Record* record : rows)
    if (median_ms(*record)) sizes[curve_key(*record)].insert(whole_of(*record, "bytes"));
  for (const FittedRow& row : fitted_rows(rows)) {
    const Record* record = row.record;
    const std::optional<CommFit>& fit = row.fit;
    if (!fit || !told.insert(curve_key(*record)).second) continue;
    const double crossing = fit->alpha_s * fit->beta_bytes_per_s / factor_of(*record);
    std::string text = fmt::format(
        "{} {} {} over {} ranks: {:.0f} us and {:.2f} GB/s (alpha and beta of the bus bandwidth) "
        "meet the times to within {:.0f} %",
        record->implementation, text_of(record->workload, "dtype"),
        text_of(record->workload, "collective"), text_of(record->workload, "ranks"),
        1e6 * fit->alpha_s, fit->beta_bytes_per_s / 1e9, 100 * fit->worst_residual);
    if (fit->worst_residual > 0.3)
      text += ", so that one latency and one bandwidth do not describe all of these sizes";
    else
      text += latency_words(crossing, sizes[curve_key(*record)]);
    notes.push_back(text);
  }
}

// Compares the times of the fewest and the most ranks, at the largest size that all numbers of
// ranks have, with the growth of the bytes that a rank sends.
void explain_ranks(const std::vector<const Record*>& rows, std::vector<std::string>& notes) {
  std::map<std::string, std::vector<const Record*>> groups;
  for (const Record* record : rows)
    if (median_ms(*record)) groups[curve_key(*record, true, false)].push_back(record);
  for (auto& [key, group] : groups) {
    const auto by_ranks = [](const Record* a, const Record* b) {
      return whole_of(*a, "ranks") < whole_of(*b, "ranks");
    };
    std::set<int64_t> ranks;
    std::map<int64_t, size_t> sizes;
    for (const Record* record : group) {
      ranks.insert(whole_of(*record, "ranks"));
      ++sizes[whole_of(*record, "bytes")];
    }
    if (ranks.size() < 2) continue;
    int64_t largest = 0;
    for (const auto& [bytes, count] : sizes)
      if (count == ranks.size()) largest = bytes;
    std::erase_if(group, [&](const Record* each) { return whole_of(*each, "bytes") != largest; });
    if (group.empty()) continue;
    const Record& few = **std::ranges::min_element(group, by_ranks);
    const Record& many = **std::ranges::max_element(group, by_ranks);
    const std::string fewest = text_of(few.workload, "ranks"),
                      most = text_of(many.workload, "ranks");
    Record alike = many;  // verdicts are on rows of one workload
    alike.workload = few.workload;
    const Judgement judged = verdict_between(few, alike, kCommPhase);
    const double sent = factor_of(many) / factor_of(few);
    std::string text = fmt::format(
        "{} {} {} of {}: {}; a rank has to send {:.2f}x as much", few.implementation,
        text_of(few.workload, "dtype"), text_of(few.workload, "collective"), size_text(few),
        judged.verdict == Verdict::unclear
            ? fmt::format("whether {} ranks take longer than {} is undecided ({})", most, fewest,
                          judged.reason)
            : fmt::format("{} ranks take {:.2f}x as long as {}", most,
                          *median_ms(many) / *median_ms(few), fewest),
        sent);
    const auto processors = static_cast<int64_t>(few.machine.logical_cores);
    if (processors > 0 && whole_of(many, "ranks") > processors)
      text += fmt::format(
          ", and {} ranks share {} processors, so that the sum of what all ranks move, {:.2f}x, "
          "counts as well",
          most, processors,
          sent * static_cast<double>(whole_of(many, "ranks")) /
              static_cast<double>(whole_of(few, "ranks")));
    notes.push_back(text);
  }
}

}  // namespace

Table comm_csv(const RecordRefs& records) {
  return table_of<FittedRow>("comm",
                             {{"backend", implementation_cell},
                              {"library", metric_text_cell("library")},
                              {"device", device_cell},
                              {"collective", workload_cell("collective")},
                              {"dtype", workload_cell("dtype")},
                              {"ranks", workload_cell("ranks")},
                              {"bytes", workload_cell("bytes")},
                              {"median_ms", statistic_cell(&Statistics::median_ms)},
                              {"mean_ms", statistic_cell(&Statistics::mean_ms)},
                              {"std_ms", statistic_cell(&Statistics::std_ms)},
                              {"min_ms", statistic_cell(&Statistics::min_ms)},
                              {"median_low_ms", statistic_cell(&Statistics::median_low_ms)},
                              {"median_high_ms", statistic_cell(&Statistics::median_high_ms)},
                              {"mean_rank_ms", median_cell(kMeanRank)},
                              {"fastest_rank_ms", median_cell(kFastest)},
                              {"algbw_gb_per_s", metric_cell("algbw_gb_per_s")},
                              {"busbw_gb_per_s", metric_cell("busbw_gb_per_s")},
                              fit_column("alpha_us", &CommFit::alpha_s, 1e6),
                              fit_column("beta_gb_per_s", &CommFit::beta_bytes_per_s, 1e-9),
                              fit_column("fit_residual", &CommFit::worst_residual, 1),
                              {"max_error",
                               [](const FittedRow& row) {
                                 const Verification& of = row.record->verification;
                                 return of.tensors.empty() ? std::string()
                                                           : cell(of.tensors[0].max_error);
                               }},
                              {"launcher", setting_cell("launcher")},
                              {"status", status_cell},
                              {"error", error_cell}},
                             fitted_rows(rows_of_study(records, "comm")));
}

Table comm_summary(const RecordRefs& records) {
  return table_of<FittedRow>("collectives: time of the slowest rank; +-% of the median within-run",
                             {{"backend", implementation_cell},
                              {"collective", workload_cell("collective")},
                              {"dtype", workload_cell("dtype")},
                              {"ranks", workload_cell("ranks")},
                              {"size", [](const FittedRow& row) { return size_text(*row.record); }},
                              {"median ms", statistic_cell(&Statistics::median_ms, "{:.3f}")},
                              {"+-%", in_run_cell},
                              {"mean rank ms", median_cell(kMeanRank, "{:.3f}")},
                              {"fastest ms", median_cell(kFastest, "{:.3f}")},
                              {"algbw GB/s", metric_cell("algbw_gb_per_s", "{:.2f}")},
                              {"busbw GB/s", metric_cell("busbw_gb_per_s", "{:.2f}")},
                              fit_column("alpha us", &CommFit::alpha_s, 1e6, "{:.0f}"),
                              fit_column("beta GB/s", &CommFit::beta_bytes_per_s, 1e-9, "{:.2f}"),
                              fit_column("fit off %", &CommFit::worst_residual, 100, "{:.0f}"),
                              {"status", status_cell}},
                             fitted_rows(rows_of_study(records, "comm")),
                             {"fit off %", "fastest ms", "mean rank ms", "alpha us", "beta GB/s"});
}

std::vector<std::string> comm_notes(const RecordRefs& records, Verdicts& verdicts) {
  const std::vector<const Record*> rows = rows_of_study(records, "comm");
  std::vector<std::string> notes;
  compare_backends(rows, verdicts, notes);
  explain_ranks(rows, notes);
  explain_sizes(rows, notes);
  std::set<std::string> libraries;
  bool all_checked = true;
  for (const Record* record : rows) {
    if (record->status != Status::ok)
      notes.push_back(fmt::format("{} {} {}: {}", record->implementation, place(*record),
                                  status_csv_word(record->status), record->error));
    all_checked = all_checked && (record->verification.checked || !median_ms(*record));
    if (record->metrics)
      libraries.insert(
          fmt::format("{} is {}", record->implementation, metric_text(*record, "library")));
  }
  if (!libraries.empty()) {
    std::string text;
    for (const std::string& each : libraries) text += (text.empty() ? "" : ", ") + each;
    notes.push_back(text);
    notes.push_back(
        fmt::format("algbw is bytes of a rank's buffer over time, busbw that times what a rank "
                    "must send of it, as nccl-tests counts{}",
                    all_checked ? "; results were compared with exact sums" : ""));
  }
  if (const std::string noise = noise_note(rows); !noise.empty()) notes.push_back(noise);
  return notes;
}

}  // namespace ridgeline
