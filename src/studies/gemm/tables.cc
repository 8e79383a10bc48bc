#include "studies/gemm/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "measure/roofline_model.h"
#include "report/record_cells.h"
#include "report/terminal/utilisation_cells.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

constexpr const char* kPhase = "forward";  // the only one

// From the cost, which rows that failed have too.
std::string intensity_cell(const RecordRow& row) {
  const PhaseCost cost = row.record->cost ? row.record->cost->forward : PhaseCost{};
  if (cost.bytes.count <= 0) return {};
  return cell(static_cast<double>(cost.flops) / static_cast<double>(cost.bytes.count), "{:.4g}");
}

std::string shape_of(const Record& record) {
  return fmt::format("{}x{}x{}", text_of(record.workload, "m"), text_of(record.workload, "n"),
                     text_of(record.workload, "k"));
}

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

Table gemm_csv(const RecordRefs& records) {
  std::vector<RecordColumn> columns = {
      {"op", workload_cell("op")},
      {"implementation", implementation_cell},
      {"device", device_cell},
      {"m", workload_cell("m")},
      {"n", workload_cell("n")},
      {"k", workload_cell("k")},
      {"dtype", workload_cell("dtype")},
      {"mode", setting_cell("mode")},
      {"macs", cost_cell(&PhaseCost::macs)},
      {"flops", cost_cell(&PhaseCost::flops)},
      {"io_bytes", cost_bytes_cell},
      {"arithmetic_intensity", metric_cell("arithmetic_intensity")},
      {"mean_ms", statistic_cell(&Statistics::mean_ms)},
      {"median_ms", statistic_cell(&Statistics::median_ms)},
      {"std_ms", statistic_cell(&Statistics::std_ms)},
      {"min_ms", statistic_cell(&Statistics::min_ms)},
      {"median_low_ms", statistic_cell(&Statistics::median_low_ms)},
      {"median_high_ms", statistic_cell(&Statistics::median_high_ms)},
      {"gflops_per_s", metric_cell("gflops_per_s")},
      {"gb_per_s", metric_cell("gb_per_s")},
      {"peak_share", metric_cell("peak_share")},
      {"ceiling_share", metric_cell("ceiling_share")},
      {"max_error", max_error_cell},
      {"status", status_cell},
      {"error", error_cell}};
  append(columns, utilisation_csv_columns());
  append<RecordRow>(
      columns, {{"ceiling_level", [](const RecordRow& row) { return ceiling_level(*row.record); }},
                {"memory_ceiling_share", metric_cell("memory_ceiling_share")}});
  return table_of("gemm", columns, record_rows(rows_of_study(records, "gemm"), kPhase));
}

Table gemm_summary(const RecordRefs& records) {
  const std::vector<RecordRow> rows = record_rows(rows_of_study(records, "gemm"), kPhase);
  std::vector<RecordColumn> columns = {
      {"op", workload_cell("op")},
      {"m x n x k", [](const RecordRow& row) { return shape_of(*row.record); }},
      {"dtype", workload_cell("dtype")},
      {"implementation", implementation_cell},
      {"MMAC", cost_cell(&PhaseCost::macs, "{:.4g}", 1e-6)},
      {"I/O MiB", cost_mebibytes_cell},
      {"FLOP/byte", intensity_cell},
      {"median ms", statistic_cell(&Statistics::median_ms, "{:.4f}")},
      {"+-%", in_run_cell},
      {"GFLOP/s", metric_cell("gflops_per_s", "{:.1f}")},
      {"GB/s", metric_cell("gb_per_s", "{:.2f}")},
      {"peak %", metric_cell("peak_share", "{:.1f}", 100)}};
  append(columns, utilisation_columns(rows));
  append<RecordRow>(columns, {{"ceiling %", metric_cell("ceiling_share", "{:.1f}", 100)},
                              {"error/tol", error_over_tolerance_cell},
                              {"status", status_cell}});
  return table_of("gemm and gemv: C[m,n] = A[m,k] B[k,n]; +-% of the median within-run", columns,
                  rows,
                  {"I/O MiB", "MMAC", "error/tol", "FLOP/byte", "GB/s", "DRAM GB/s", "tensor %",
                   "SM %", "peak %", "ceiling %", "GFLOP/s"});
}

std::vector<std::string> gemm_notes(const RecordRefs& records, Verdicts& verdicts) {
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
  for (const Record* record : rows_of_study(records, "gemm")) {
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
  add(noise_note(rows_of_study(records, "gemm")));
  for (const Record* record : rows_of_study(records, "gemm")) {
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
  for (const std::string& note :
       utilisation_notes(record_rows(rows_of_study(records, "gemm"), kPhase)))
    add(note);
  if (!has_ceilings && !groups.empty())
    add("no measured ceilings of this device were found: `ridgeline roofline` measures them");
  for (const Record* record : rows_of_study(records, "gemm"))
    if (record->status != Status::ok)
      add(fmt::format("{} {} {}: {}", record->implementation, shape_of(*record),
                      status_csv_word(record->status), record->error));
  return notes;
}

}  // namespace ridgeline
