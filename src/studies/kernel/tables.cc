#include "studies/kernel/tables.h"

#include <fmt/format.h>

#include <array>

#include "report/terminal/busy_cells.h"
#include "report/terminal/utilisation_cells.h"

namespace ridgeline {
namespace {

constexpr std::array kPasses = {"forward", "backward"};

// A record that was not measured has one row, for forward.
std::vector<RecordRow> pass_rows(const RecordRefs& records) {
  std::vector<RecordRow> rows;
  for (const Record* record : rows_of_study(records, "kernel"))
    for (const char* pass : kPasses)
      if (record->find_series(pass) || (record->series.empty() && pass == kPasses[0]))
        rows.push_back({record, pass});
  return rows;
}

// Older records name the metric sm_utilization.
RecordCell peak_share_cell(const char* format, double factor) {
  return [=](const RecordRow& row) {
    const auto found = metric_of(*row.record, row.series, "peak_share");
    return cell(found ? found : metric_of(*row.record, row.series, "sm_utilization"), format,
                factor);
  };
}

RecordCell busy_cell(const char* format, double factor) {
  return
      [=](const RecordRow& row) { return cell(busy_ms(row.record, row.series), format, factor); };
}

RecordCell microseconds(double Statistics::*which) {
  return statistic_cell(which, "{:.2f}", 1e3);
}

// "8,1,1024,64 causal".
std::string shape_cell(const RecordRow& row) {
  const Json& size = row.record->workload;
  return fmt::format("{},{},{},{}{}", text_of(size, "batch_size"), text_of(size, "heads"),
                     text_of(size, "seq_len"), text_of(size, "head_dim"),
                     text_of(size, "causal") == "True" ? " causal" : "");
}

}  // namespace

Table kernel_csv(const RecordRefs& records) {
  std::vector<RecordColumn> columns = {
      {"implementation", implementation_cell},
      {"batch_size", workload_cell("batch_size")},
      {"heads", workload_cell("heads")},
      {"seq_len", workload_cell("seq_len")},
      {"head_dim", workload_cell("head_dim")},
      {"dtype", workload_cell("dtype")},
      {"causal", workload_cell("causal")},
      {"mode", setting_cell("mode")},
      {"pass", series_cell},
      {"backward", setting_cell("backward")},
      {"mean_ms", statistic_cell(&Statistics::mean_ms)},
      {"median_ms", statistic_cell(&Statistics::median_ms)},
      {"std_ms", statistic_cell(&Statistics::std_ms)},
      {"min_ms", statistic_cell(&Statistics::min_ms)},
      {"max_ms", statistic_cell(&Statistics::max_ms)},
      {"p95_ms", statistic_cell(&Statistics::p95_ms)},
      {"p99_ms", statistic_cell(&Statistics::p99_ms)},
      {"iqr_ms", statistic_cell(&Statistics::iqr_ms)},
      {"median_low_ms", statistic_cell(&Statistics::median_low_ms)},
      {"median_high_ms", statistic_cell(&Statistics::median_high_ms)},
      {"gflops_per_s", metric_cell("gflops_per_s")},
      {"gb_per_s", metric_cell("gb_per_s")},
      {"queries_per_s", metric_cell("queries_per_s")},
      {"peak_share", peak_share_cell("{:.6g}", 1)},
      {"host_us", metric_cell("host_us")},
      {"status", status_cell},
      {"error", error_cell},
      {"busy_ms", busy_cell("{:.6g}", 1)},
      {"host_bound", [](const RecordRow& row) { return host_bound_cell(row.record, row.series); }}};
  append(columns, utilisation_csv_columns());
  return table_of("kernel", columns, pass_rows(records));
}

Table kernel_summary(const RecordRefs& records) {
  const std::vector<RecordRow> rows = pass_rows(records);
  const VariantNames variants(records, "kernel");
  std::vector<RecordColumn> columns = {
      {"implementation", [&](const RecordRow& row) { return variants.of(*row.record); }},
      {"B,H,S,d", shape_cell},
      {"dtype", workload_cell("dtype")},
      {"mode", setting_cell("mode")},
      {"pass", series_cell},
      {"median", microseconds(&Statistics::median_ms)},
      {"+-%", in_run_cell},
      {"mean", microseconds(&Statistics::mean_ms)},
      {"std", microseconds(&Statistics::std_ms)},
      {"min", microseconds(&Statistics::min_ms)},
      {"p95", microseconds(&Statistics::p95_ms)},
      {"p99", microseconds(&Statistics::p99_ms)},
      {"GFLOP/s", metric_cell("gflops_per_s", "{:.1f}")},
      {"GB/s", metric_cell("gb_per_s", "{:.2f}")},
      {"Mqueries/s", metric_cell("queries_per_s", "{:.3f}", 1e-6)},
      {"peak %", peak_share_cell("{:.1f}", 100)}};
  append(columns, utilisation_columns(rows));
  append<RecordRow>(columns,
                    {{"host us", metric_cell("host_us", "{:.2f}")},
                     {"busy us", busy_cell("{:.2f}", 1e3), tells_busy_time(records, "kernel")},
                     {"status", status_cell}});
  return table_of("kernel: microseconds per call, +-% of the median within-run", columns, rows,
                  {"Mqueries/s", "GB/s", "host us", "p99", "min", "std", "p95", "mean", "DRAM GB/s",
                   "tensor %", "SM %", "peak %", "GFLOP/s", "busy us"});
}

std::vector<std::string> kernel_notes(const RecordRefs& records) {
  std::vector<std::string> notes;
  const auto add = [&](const std::string& note) { add_once(notes, note); };
  const std::vector<const Record*> rows = rows_of_study(records, "kernel");
  for (const Record* record : rows)
    if (record->status != Status::ok)
      add(fmt::format("{} {}: {}", record->implementation, status_csv_word(record->status),
                      record->error));
  add(host_bound_note(rows));
  add(noise_note(rows));
  for (const Record* record : rows) {
    add(metric_text(*record, "conventions"));
    const std::string share = metric_text(*record, "peak_share_is");
    if (!share.empty()) add("peak % is " + share);
    add(metric_text(*record, "mode_is"));
    add(metric_text(*record, "busy_is"));
  }
  for (const std::string& note : utilisation_notes(pass_rows(records))) add(note);
  constexpr size_t kMostExplained = 3;
  size_t explained = 0;
  for (const auto& [record, pass] : pass_rows(records)) {
    const auto busy = busy_ms(record, pass),
               median = statistic(*record, pass, &Statistics::median_ms);
    if (!busy || !median || !(*median > 0) || explained == kMostExplained) continue;
    const std::string why = low_use_sentence(utilization_in(*record, pass), *busy / *median);
    if (why.empty()) continue;
    add(fmt::format("{} S={} {} {}: {}", record->implementation,
                    text_of(record->workload, "seq_len"), text_of(record->settings, "mode"), pass,
                    why));
    ++explained;
  }
  return notes;
}

}  // namespace ridgeline
