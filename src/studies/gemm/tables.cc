#include "studies/gemm/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "measure/roofline_model.h"
#include "report/record_cells.h"
#include "report/terminal/utilisation_cells.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

constexpr const char* kPhase = "forward";  // the only one

std::optional<double> max_error(const Record& record) {
  if (!record.verification.checked || record.verification.tensors.empty()) return std::nullopt;
  const double error = record.verification.tensors[0].max_error;
  return std::isfinite(error) ? std::optional(error) : std::nullopt;
}

std::vector<const Record*> gemm_rows(std::span<const Record> records) {
  return rows_of_study(records, "gemm");
}

std::string shape_of(const Record& record) {
  return fmt::format("{}x{}x{}", text_of(record.workload, "m"), text_of(record.workload, "n"),
                     text_of(record.workload, "k"));
}

constexpr const char* kMetrics[] = {"gflops_per_s", "gb_per_s", "peak_share", "ceiling_share"};

// "gemm fp32 cpu 64x64x64: naive is 4.00x slower than the library"; empty if either has no time.
std::string beside_library(const Record& library, const Record& record, Verdicts& verdicts) {
  const auto ours = statistic(record, kPhase, &Statistics::median_ms);
  const auto theirs = statistic(library, kPhase, &Statistics::median_ms);
  if (!ours || !theirs || *ours <= 0 || *theirs <= 0) return {};
  const std::string what = fmt::format("{} {} {}{} {}: {}", text_of(record.workload, "op"),
                                       text_of(record.workload, "dtype"), record.device,
                                       text_of(record.settings, "mode") == "cold" ? " cold" : "",
                                       shape_of(record), record.implementation);
  const Judgement& judgement = verdicts.between(library, record, kPhase);
  const std::string ratio = times_as_fast(*theirs / *ours);
  // The samples differ clearly, but the machine's state is in doubt: say why there is no verdict.
  if (judgement.verdict == Verdict::unclear && judgement.is_apart)
    return fmt::format(
        "{} is {} {} the library by the medians, and there is no verdict, because the machine is "
        "in doubt: {}",
        what, ratio, ratio.ends_with("slower") ? "than" : "as", judgement.reason);
  if (judgement.verdict == Verdict::unclear)
    return fmt::format("{} against the library is undecided ({} by the medians): {}", what, ratio,
                       judgement.reason);
  if (judgement.verdict == Verdict::same) return fmt::format("{} is as fast as the library", what);
  return fmt::format("{} is {} {} the library", what, ratio,
                     ratio.ends_with("slower") ? "than" : "as");
}

// The level of memory whose roof applies: "L2", "memory"; empty without ceilings.
std::string ceiling_level(const Record& record) {
  return metric_word(record, kPhase, "ceiling_level");
}

// Compares a gemv with the roofs of its cache and of memory: operands that stay in a cache from
// call to call may pass the roof of memory. Empty without ceilings, or if operands come from
// memory.
std::string both_roofs(const Record& record) {
  const std::string level = ceiling_level(record);
  const auto of_cache = metric_of(record, kPhase, "ceiling_share");
  const auto of_memory = metric_of(record, kPhase, "memory_ceiling_share");
  const auto capacity = metric_of(record, kPhase, "ceiling_level_bytes");
  if (text_of(record.workload, "op") != "gemv" || !of_cache || !of_memory || !capacity) return {};
  return fmt::format(
      "gemv {} {} {} by {}: its operands, {}, fit {} ({}), which holds them from call to call, so "
      "that the roof of memory {}: it runs at {:.0f} % of the memory's roof and at {:.0f} % of "
      "{}'s; --mode cold empties the cache first",
      text_of(record.workload, "dtype"), record.device, shape_of(record), record.implementation,
      to_string(record.cost->forward.bytes), level, to_string(Bytes{bounded_integer(*capacity)}),
      *of_memory > 1 ? "is passed" : "may be passed", 100 * *of_memory, 100 * *of_cache, level);
}

}  // namespace

Table gemm_csv(std::span<const Record> records) {
  Table table{.title = "gemm",
              .columns = {"op", "implementation", "device", "m", "n", "k", "dtype", "mode", "macs",
                          "flops", "io_bytes", "arithmetic_intensity", "mean_ms", "median_ms",
                          "std_ms", "min_ms", "median_low_ms", "median_high_ms"}};
  table.columns.insert(table.columns.end(), std::begin(kMetrics), std::end(kMetrics));
  table.columns.insert(table.columns.end(), {"max_error", "status", "error"});
  table.columns.insert(table.columns.end(), kUtilisationCsv.begin(), kUtilisationCsv.end());
  table.columns.insert(table.columns.end(), {"ceiling_level", "memory_ceiling_share"});
  for (const Record* record : gemm_rows(records)) {
    const Json& size = record->workload;
    std::vector<std::string> row = {text_of(size, "op"),    record->implementation,
                                    record->device,         text_of(size, "m"),
                                    text_of(size, "n"),     text_of(size, "k"),
                                    text_of(size, "dtype"), text_of(record->settings, "mode")};
    const PhaseCost cost = record->cost ? record->cost->forward : PhaseCost{};
    for (int64_t count : {cost.macs, cost.flops, cost.bytes.count})
      row.push_back(record->cost ? fmt::to_string(count) : std::string());
    row.push_back(cell(metric_of(*record, kPhase, "arithmetic_intensity")));
    for (auto which :
         {&Statistics::mean_ms, &Statistics::median_ms, &Statistics::std_ms, &Statistics::min_ms,
          &Statistics::median_low_ms, &Statistics::median_high_ms})
      row.push_back(cell(statistic(*record, kPhase, which)));
    for (const char* name : kMetrics) row.push_back(cell(metric_of(*record, kPhase, name)));
    row.push_back(cell(max_error(*record)));
    row.emplace_back(status_csv_word(record->status));
    row.push_back(record->error);
    for (std::string& text : utilisation_csv(utilization_in(*record, kPhase)))
      row.push_back(std::move(text));
    row.push_back(ceiling_level(*record));
    row.push_back(cell(metric_of(*record, kPhase, "memory_ceiling_share")));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table gemm_summary(std::span<const Record> records) {
  Table table{.title = "gemm and gemv: C[m,n] = A[m,k] B[k,n]; +-% of the median within-run",
              .columns = {"op", "m x n x k", "dtype", "implementation", "MMAC", "I/O MiB",
                          "FLOP/byte", "median ms", "+-%", "GFLOP/s", "GB/s", "peak %", "ceiling %",
                          "error/tol", "status"},
              .rows = {},
              .spare = {"I/O MiB", "MMAC", "error/tol", "FLOP/byte", "GB/s", "peak %", "ceiling %",
                        "GFLOP/s"}};
  std::vector<const Json*> used;
  for (const Record* record : gemm_rows(records)) {
    const PhaseCost cost = record->cost ? record->cost->forward : PhaseCost{};
    const double intensity = cost.bytes.count > 0 ? static_cast<double>(cost.flops) /
                                                        static_cast<double>(cost.bytes.count)
                                                  : 0;
    std::string error;
    if (const auto worst = max_error(*record))
      error = fmt::format("{:.2f}", *worst / record->verification.tensors[0].tolerance);
    table.rows.push_back(
        {text_of(record->workload, "op"), shape_of(*record), text_of(record->workload, "dtype"),
         record->implementation, fmt::format("{:.4g}", static_cast<double>(cost.macs) / 1e6),
         fmt::format("{:.4g}", cost.bytes.mebibytes()), fmt::format("{:.4g}", intensity),
         cell(statistic(*record, kPhase, &Statistics::median_ms), "{:.4f}"),
         record->status == Status::ok ? cell(in_run_percent(*record, kPhase), "{:.1f}") : "",
         cell(metric_of(*record, kPhase, "gflops_per_s"), "{:.1f}"),
         cell(metric_of(*record, kPhase, "gb_per_s"), "{:.2f}"),
         cell(metric_of(*record, kPhase, "peak_share"), "{:.1f}", 100),
         cell(metric_of(*record, kPhase, "ceiling_share"), "{:.1f}", 100), error,
         std::string(status_csv_word(record->status))});
    used.push_back(utilization_in(*record, kPhase));
  }
  insert_utilisation(table, used);
  return table;
}

std::vector<std::string> gemm_notes(std::span<const Record> records) {
  Verdicts verdicts(records);
  return gemm_notes(records, verdicts);
}

std::vector<std::string> gemm_notes(std::span<const Record> records, Verdicts& verdicts) {
  std::vector<std::string> notes;
  const auto add = [&](const std::string& note) { add_once(notes, note); };
  // The rungs are compared with the library at the largest problem of each op, dtype and mode.
  struct Alike {
    int64_t macs = 0;
    std::vector<const Record*> rows;
    const Record* highest = nullptr;  // the highest share of memory's roof
  };
  std::map<std::string, Alike> groups;
  bool has_ceilings = false;
  for (const Record* record : gemm_rows(records)) {
    if (metric_of(*record, kPhase, "ceiling_share")) has_ceilings = true;
    if (record->status != Status::ok || !record->cost) continue;
    std::string key;
    for (const std::string& part :
         {text_of(record->workload, "op"), text_of(record->workload, "dtype"), record->device,
          text_of(record->settings, "mode"), text_of(record->settings, "threads")})
      key += part + '\n';
    Alike& group = groups[key + record->machine.fingerprint];
    const int64_t macs = record->cost->forward.macs;
    const auto over_memory = [&](const Record& row) {
      return metric_of(row, kPhase, "memory_ceiling_share").value_or(0);
    };
    if (!group.highest || over_memory(*record) > over_memory(*group.highest))
      group.highest = record;
    if (macs > group.macs) group = {macs, {}, group.highest};
    if (macs == group.macs) group.rows.push_back(record);
  }
  for (const auto& [key, group] : groups) {
    const auto library =
        std::find_if(group.rows.begin(), group.rows.end(),
                     [](const Record* record) { return record->implementation == "library"; });
    if (library == group.rows.end()) continue;
    for (const Record* record : group.rows)
      if (record != *library) add(beside_library(**library, *record, verdicts));
  }
  for (const auto& [key, group] : groups) add(both_roofs(*group.highest));
  add(noise_note(gemm_rows(records)));
  for (const Record* record : gemm_rows(records)) {
    if (const auto share = metric_of(*record, kPhase, "ceiling_share");
        share && *share > kCeilingSlack)
      add("shares of the ceiling above 105 % say that it was measured too low, beside other work "
          "perhaps: `ridgeline roofline` measures it again");
    if (record->cost) add(record->cost->convention);
    if (!record->metrics) continue;
    add("peak % is " + text_of(*record->metrics, "peak_share_is"));
    if (metric_of(*record, kPhase, "ceiling_share"))
      add("ceiling % is " + text_of(*record->metrics, "ceiling_share_is"));
  }
  std::vector<const Json*> used;
  for (const Record* record : gemm_rows(records)) used.push_back(utilization_in(*record, kPhase));
  for (const std::string& note : utilisation_notes(used)) add(note);
  if (!has_ceilings && !groups.empty())
    add("no measured ceilings of this device were found: `ridgeline roofline` measures them");
  for (const Record* record : gemm_rows(records))
    if (record->status != Status::ok)
      add(fmt::format("{} {} {}: {}", record->implementation, shape_of(*record),
                      status_csv_word(record->status), record->error));
  return notes;
}

}  // namespace ridgeline
