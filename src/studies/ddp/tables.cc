#include "studies/ddp/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/record_columns.h"
#include "studies/ddp/rank.h"

namespace ridgeline {
namespace {

std::string counted(const std::string& number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == "1" ? "" : "s");
}

}  // namespace

std::optional<double> predicted_off(const Record& record) {
  const auto predicted = metric_number(record, "predicted_step_ms");
  const auto measured = median_ms(record, kDdpStep);
  if (!predicted || !measured || !(*measured > 0)) return std::nullopt;
  return *predicted / *measured - 1;
}

std::string ddp_key(const Record& record) {
  std::string key = record.machine.fingerprint + '\n' + record.device;
  for (const char* part : {"model_size", "num_params", "context_length", "batch_size", "precision",
                           "mode", "ranks", "backend", "micro_batches"})
    key += '\n' + text_of(record.workload, part);
  return key + '\n' + text_of(record.settings, "threads") + text_of(record.settings, "launcher") +
         text_of(record.settings, "seed");
}

std::string ddp_place(const Record& record) {
  const std::string parts = text_of(record.workload, "micro_batches");
  const std::string threads = text_of(record.settings, "threads");
  return fmt::format("{} {} {}, context {}, batch {}{}, {} {} by {}",
                     text_of(record.workload, "model_size"), text_of(record.workload, "precision"),
                     text_of(record.workload, "mode"), text_of(record.workload, "context_length"),
                     text_of(record.workload, "batch_size"),
                     parts.empty() ? "" : fmt::format(" in {} parts", parts),
                     counted(text_of(record.workload, "ranks"), "rank"),
                     threads.empty() ? "on " + record.device : "of " + counted(threads, "thread"),
                     text_of(record.workload, "backend"));
}

std::string strategy_text(const Record& record) {
  const std::string bucket = text_of(record.settings, "bucket_mb");
  return bucket.empty() ? record.implementation
                        : fmt::format("{} {} MB", record.implementation, bucket);
}

namespace {

using DdpGroups = std::map<std::string, std::vector<const Record*>>;

void compare_strategies(const DdpGroups& groups, Verdicts& verdicts,
                        std::vector<std::string>& notes) {
  for (const auto& [key, group] : groups) {
    const auto naive = std::ranges::find_if(
        group, [](const Record* record) { return record->implementation == "naive"; });
    if (naive == group.end()) continue;
    for (const Record* record : group) {
      if (record == *naive) continue;
      Speedup speedup(verdicts);
      speedup.add(*naive, record, kDdpStep, ddp_place(*record));
      if (speedup.count() == 0) continue;
      const std::string what =
          fmt::format("{}: {} against naive", ddp_place(*record), strategy_text(*record));
      notes.push_back(speedup.mostly_decided()
                          ? fmt::format("{} is {}", what, speedup.words())
                          : fmt::format("{} is undecided: {}", what, speedup.reasons().text()));
    }
  }
}

// The ranks of a host, the threads of each that compute, and the processors that they share.
struct HostShare {
  double ranks = 0, threads = 0, processors = 0;
  bool is_known() const { return threads > 0 && processors > 0; }
};

HostShare host_share(const Record& record) {
  const double all_ranks = number_in(record.workload, "ranks").value_or(0);
  return {number_in(record.settings, "ranks_of_host").value_or(all_ranks),
          number_in(record.settings, "threads").value_or(0),
          static_cast<double>(record.machine.logical_cores)};
}

void tell_hidden(const DdpGroups& groups, std::vector<std::string>& notes) {
  for (const auto& [key, group] : groups) {
    std::string text;
    for (const Record* record : group) {
      const auto spent = median_ms(*record, kDdpCommunication);
      const auto exposed = median_ms(*record, kDdpExposed);
      if (!spent || !exposed || !(*spent > 0)) continue;
      text += fmt::format("{}{} {:.0f} % of {:.2f} ms", text.empty() ? "" : ", ",
                          strategy_text(*record), 100 * std::clamp(1 - *exposed / *spent, 0.0, 1.0),
                          *spent);
    }
    if (text.empty()) continue;
    notes.push_back(
        fmt::format("{}: communication that was hidden behind computation, by the longest wait of "
                    "a rank and the longest communication of one, which may be another: {}",
                    ddp_place(*group.front()), text));
    const HostShare host = host_share(*group.front());
    if (host.is_known() && host.ranks * (host.threads + 1) > host.processors)
      notes.push_back(fmt::format(
          "{} ranks of {} and one that communicates share {}: they take turns, and what is hidden "
          "costs the time of others",
          host.ranks, counted(fmt::format("{}", host.threads), "thread"),
          counted(fmt::format("{}", host.processors), "processor")));
  }
}

void tell_predicted(const DdpGroups& groups, std::vector<std::string>& notes) {
  for (const auto& [key, group] : groups) {
    std::string text;
    double alone = 0, together = 0;
    for (const Record* record : group) {
      const auto off = predicted_off(*record);
      if (!off) continue;
      text += fmt::format("{}{} {:+.1f} %", text.empty() ? "" : ", ", strategy_text(*record),
                          100 * *off);
      alone += metric_number(*record, "compute_alone_ms").value_or(0);
      together += metric_number(*record, "compute_ms").value_or(0);
    }
    if (text.empty() || !(alone > 0)) continue;
    const Record& first = *group.front();
    const HostShare host = host_share(first);
    notes.push_back(fmt::format(
        "{}: predicted steps are off by {}; computation of all ranks side by side takes {:.2f} "
        "times as long as that of one alone{}",
        ddp_place(first), text, together / alone,
        host.is_known() ? fmt::format(", and ranks x threads / processors is {:.2f}",
                                      host.ranks * host.threads / host.processors)
                        : std::string()));
  }
}

// Whether sums have one order: threads add in the order of ranks, and two ranks have only one sum.
// A GPU has a fixed order only if it is deterministic.
bool has_one_order(const Record& record) {
  if (!text_of(record.settings, "gpu").empty() && text_of(record.settings, "deterministic").empty())
    return false;
  return text_of(record.workload, "backend") == "threads" ||
         number_in(record.workload, "ranks").value_or(0) <= 2;
}

void compare_hashes(const DdpGroups& groups, std::vector<std::string>& notes) {
  for (const auto& [key, group] : groups) {
    std::map<std::string, std::set<std::string>> strategies;  // by hash
    for (const Record* record : group)
      if (const std::string hash = metric_text(*record, "parameters_hash"); !hash.empty())
        strategies[hash].insert(strategy_text(*record));
    size_t count = 0;
    for (const auto& [hash, names] : strategies) count += names.size();
    if (count < 2) continue;
    notes.push_back(strategies.size() == 1
                        ? fmt::format("{}: all {} strategies give the same parameters, bit by bit",
                                      ddp_place(*group.front()), count)
                        : fmt::format("{}: strategies give {} different sets of parameters, which "
                                      "{}",
                                      ddp_place(*group.front()), strategies.size(),
                                      has_one_order(*group.front())
                                          ? "they should not"
                                          : "different orders of sums can do"));
  }
}

RecordCell predicted_off_cell(const char* format, double factor) {
  return [=](const RecordRow& row) { return cell(predicted_off(*row.record), format, factor); };
}

}  // namespace

Table ddp_csv(const RecordRefs& records) {
  return table_of<RecordRow>(
      "ddp",
      {{"strategy", implementation_cell},
       {"backend", workload_cell("backend")},
       {"library", metric_text_cell("library")},
       {"device", device_cell},
       {"model_size", workload_cell("model_size")},
       {"precision", workload_cell("precision")},
       {"mode", workload_cell("mode")},
       {"batch_size", workload_cell("batch_size")},
       {"context_length", workload_cell("context_length")},
       {"ranks", workload_cell("ranks")},
       {"threads", setting_cell("threads")},
       {"bucket_mb", setting_cell("bucket_mb")},
       {"step_ms", statistic_cell(&Statistics::median_ms)},
       {"step_low_ms", statistic_cell(&Statistics::median_low_ms)},
       {"step_high_ms", statistic_cell(&Statistics::median_high_ms)},
       {"predicted_step_ms", number_cell("predicted_step_ms")},
       {"predicted_off", predicted_off_cell("{:.4f}", 1)},
       {"compute_ms", number_cell("compute_ms")},
       {"compute_alone_ms", number_cell("compute_alone_ms")},
       {"communication_ms", median_cell(kDdpCommunication)},
       {"exposed_ms", median_cell(kDdpExposed)},
       {"collectives", number_cell("collectives", "{:.10g}")},
       {"bytes_per_step", number_cell("bytes_per_step", "{:.10g}")},
       {"predicted_bytes_per_step", number_cell("predicted_bytes_per_step", "{:.10g}")},
       {"peak_mb", memory_cell(&MemoryFacts::peak)},
       {"predicted_peak_mb", memory_cell(&MemoryFacts::predicted_peak)},
       {"parameters_hash", metric_text_cell("parameters_hash")},
       {"launcher", setting_cell("launcher")},
       {"status", status_cell},
       {"error", error_cell}},
      record_rows(rows_of_study(records, "ddp"), kDdpStep));
}

Table ddp_summary(const RecordRefs& records) {
  return table_of<RecordRow>(
      "training on several ranks: step of the slowest one; memory and bytes of one",
      {{"strategy", [](const RecordRow& row) { return strategy_text(*row.record); }},
       {"backend", workload_cell("backend")},
       {"model", workload_cell("model_size")},
       {"precision", workload_cell("precision")},
       {"mode", workload_cell("mode")},
       {"context", workload_cell("context_length")},
       {"ranks", workload_cell("ranks")},
       {"step ms", statistic_cell(&Statistics::median_ms, "{:.2f}")},
       {"+-%", in_run_cell},
       {"predicted", number_cell("predicted_step_ms", "{:.2f}")},
       {"off %", predicted_off_cell("{:+.1f}", 100)},
       {"communication ms", median_cell(kDdpCommunication, "{:.2f}")},
       {"exposed ms", median_cell(kDdpExposed, "{:.2f}")},
       {"collectives", number_cell("collectives", "{:.0f}")},
       {"MB sent", number_cell("bytes_per_step", "{:.2f}", 1e-6)},
       {"peak MiB", memory_cell(&MemoryFacts::peak, "{:.1f}")},
       {"predicted MiB", memory_cell(&MemoryFacts::predicted_peak, "{:.1f}")},
       {"status", status_cell}},
      record_rows(rows_of_study(records, "ddp"), kDdpStep),
      {"context", "predicted MiB", "precision", "collectives", "MB sent", "mode", "off %",
       "predicted", "peak MiB", "+-%"},
      {"context", "precision", "mode"});
}

std::vector<std::string> ddp_notes(const RecordRefs& records, Verdicts& verdicts) {
  const std::vector<const Record*> rows = rows_of_study(records, "ddp");
  DdpGroups groups;
  std::vector<std::string> notes;
  for (const Record* record : rows)
    if (median_ms(*record, kDdpStep)) groups[ddp_key(*record)].push_back(record);
  compare_strategies(groups, verdicts, notes);
  tell_hidden(groups, notes);
  tell_predicted(groups, notes);
  compare_hashes(groups, notes);
  for (const Record* record : rows)
    if (record->status != Status::ok)
      notes.push_back(fmt::format("{} {} {}: {}", strategy_text(*record), ddp_place(*record),
                                  status_csv_word(record->status), record->error));
  if (!groups.empty())
    notes.push_back(
        "communication is the time in collectives, with the wait for other ranks; exposed is how "
        "long computation waited for them; both of the rank with the most of it; a step is "
        "predicted by its computation without collectives and its collectives without computation, "
        "both measured before it");
  if (const std::string noise = noise_note(rows); !noise.empty()) notes.push_back(noise);
  return notes;
}

}  // namespace ridgeline
