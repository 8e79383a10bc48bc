#include "studies/kernel/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/record_cells.h"
#include "report/terminal/busy_cells.h"
#include "report/terminal/utilisation_cells.h"

namespace ridgeline {
namespace {

constexpr std::array kPasses = {"forward", "backward"};

struct Row {
  const Record* record;
  const char* pass;
};

// A record that was not measured has one row, for forward.
std::vector<Row> pass_rows(std::span<const Record> records) {
  std::vector<Row> rows;
  for (const Record& record : records) {
    if (record.study != "kernel" || !record.workload.is_object()) continue;
    for (const char* pass : kPasses)
      if (record.find_series(pass) || (record.series.empty() && pass == kPasses[0]))
        rows.push_back({&record, pass});
  }
  return rows;
}

struct StatisticColumn {
  const char* name;
  double Statistics::*which;
};
constexpr StatisticColumn kStatistics[] = {
    {"mean_ms", &Statistics::mean_ms},
    {"median_ms", &Statistics::median_ms},
    {"std_ms", &Statistics::std_ms},
    {"min_ms", &Statistics::min_ms},
    {"max_ms", &Statistics::max_ms},
    {"p95_ms", &Statistics::p95_ms},
    {"p99_ms", &Statistics::p99_ms},
    {"iqr_ms", &Statistics::iqr_ms},
    {"median_low_ms", &Statistics::median_low_ms},
    {"median_high_ms", &Statistics::median_high_ms},
};
constexpr std::array kPassMetrics = {"gflops_per_s", "gb_per_s", "queries_per_s", "peak_share",
                                     "host_us"};

// Older records name the metric sm_utilization.
std::optional<double> metric(const Record& record, std::string_view pass, std::string_view name) {
  const std::optional<double> found = metric_of(record, pass, name.data());
  return found || name != "peak_share" ? found : metric_of(record, pass, "sm_utilization");
}
constexpr std::array kSizes = {"batch_size", "heads", "seq_len", "head_dim", "dtype", "causal"};

}  // namespace

Table kernel_csv(std::span<const Record> records) {
  Table table{.title = "kernel"};
  table.columns = {"implementation"};
  table.columns.insert(table.columns.end(), kSizes.begin(), kSizes.end());
  table.columns.insert(table.columns.end(), {"mode", "pass", "backward"});
  for (const StatisticColumn& column : kStatistics) table.columns.emplace_back(column.name);
  table.columns.insert(table.columns.end(), kPassMetrics.begin(), kPassMetrics.end());
  table.columns.insert(table.columns.end(), {"status", "error", "busy_ms", "host_bound"});
  table.columns.insert(table.columns.end(), kUtilisationCsv.begin(), kUtilisationCsv.end());
  for (const auto& [record, pass] : pass_rows(records)) {
    std::vector<std::string> row = {record->implementation};
    for (const char* key : kSizes) row.push_back(text_of(record->workload, key));
    row.push_back(text_of(record->settings, "mode"));
    row.emplace_back(pass);
    row.push_back(text_of(record->settings, "backward"));
    for (const StatisticColumn& column : kStatistics)
      row.push_back(cell(statistic(*record, pass, column.which)));
    for (const char* name : kPassMetrics) row.push_back(cell(metric(*record, pass, name)));
    row.emplace_back(status_csv_word(record->status));
    row.push_back(record->error);
    row.push_back(cell(busy_ms(record, pass)));
    row.push_back(host_bound_cell(record, pass));
    for (std::string& text : utilisation_csv(utilization_in(*record, pass)))
      row.push_back(std::move(text));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table kernel_summary(std::span<const Record> records) {
  Table table{.title = "kernel: microseconds per call, +-% of the median within-run",
              .columns = {"implementation", "B,H,S,d", "dtype", "mode", "pass", "median", "+-%",
                          "mean", "std", "min", "p95", "p99", "GFLOP/s", "GB/s", "Mqueries/s",
                          "peak %", "host us", "status"},
              .rows = {},
              .spare = {"Mqueries/s", "GB/s", "host us", "p99", "min", "std", "p95", "mean",
                        "peak %", "GFLOP/s"}};
  const VariantNames variants(records, "kernel");
  std::vector<std::vector<std::string>> busy;
  std::vector<const Json*> used;
  for (const auto& [record, pass] : pass_rows(records)) {
    const Json& size = record->workload;
    const auto us = [&, &of = *record, &name = pass](double Statistics::*which) {
      return cell(statistic(of, name, which), "{:.2f}", 1e3);
    };
    table.rows.push_back(
        {variants.of(*record),
         fmt::format("{},{},{},{}{}", text_of(size, "batch_size"), text_of(size, "heads"),
                     text_of(size, "seq_len"), text_of(size, "head_dim"),
                     text_of(size, "causal") == "True" ? " causal" : ""),
         text_of(size, "dtype"), text_of(record->settings, "mode"), pass,
         us(&Statistics::median_ms),
         record->status == Status::ok ? cell(in_run_percent(*record, pass), "{:.1f}") : "",
         us(&Statistics::mean_ms), us(&Statistics::std_ms), us(&Statistics::min_ms),
         us(&Statistics::p95_ms), us(&Statistics::p99_ms),
         cell(metric_of(*record, pass, "gflops_per_s"), "{:.1f}"),
         cell(metric_of(*record, pass, "gb_per_s"), "{:.2f}"),
         cell(metric_of(*record, pass, "queries_per_s"), "{:.3f}", 1e-6),
         cell(metric(*record, pass, "peak_share"), "{:.1f}", 100),
         cell(metric_of(*record, pass, "host_us"), "{:.2f}"),
         std::string(status_csv_word(record->status))});
    busy.push_back({cell(busy_ms(record, pass), "{:.2f}", 1e3)});
    used.push_back(utilization_in(*record, pass));
  }
  if (tells_busy_time(records, "kernel")) insert_after(table, "host us", {"busy us"}, busy);
  insert_utilisation(table, used);
  return table;
}

std::vector<std::string> kernel_notes(std::span<const Record> records) {
  std::vector<std::string> notes;
  const auto add = [&](const std::string& note) { add_once(notes, note); };
  for (const Record& record : records)
    if (record.status != Status::ok && record.study == "kernel")
      add(fmt::format("{} {}: {}", record.implementation, status_csv_word(record.status),
                      record.error));
  add(host_bound_note(rows_of_study(records, "kernel")));
  add(noise_note(rows_of_study(records, "kernel")));
  for (const Record& record : records) {
    if (record.study != "kernel" || !record.metrics || !record.metrics->is_object()) continue;
    add(text_of(*record.metrics, "conventions"));
    const std::string share = text_of(*record.metrics, "peak_share_is");
    if (!share.empty()) add("peak % is " + share);
    add(text_of(*record.metrics, "mode_is"));
    add(text_of(*record.metrics, "busy_is"));
  }
  std::vector<const Json*> used;
  for (const auto& [record, pass] : pass_rows(records))
    used.push_back(utilization_in(*record, pass));
  for (const std::string& note : utilisation_notes(used)) add(note);
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
