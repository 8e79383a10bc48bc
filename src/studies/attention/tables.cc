#include "studies/attention/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "report/record_cells.h"
#include "report/terminal/busy_cells.h"
#include "report/terminal/fallback.h"
#include "report/verdicts.h"
#include "studies/attention/record_rows.h"

namespace ridgeline {
namespace {

std::string true_or_false(bool value) {
  return value ? "True" : "False";
}

// A key that gets a column only if rows differ in it; otherwise it is part of the title.
struct OccasionalKey {
  std::string name;
  std::string (*cell)(const AttentionSize&);
  std::string (*title)(const AttentionSize&);
};

const OccasionalKey kOccasionalKeys[] = {
    {"heads", [](const AttentionSize& s) { return fmt::to_string(s.heads); },
     [](const AttentionSize& s) { return fmt::format("heads {}", s.heads); }},
    {"causal", [](const AttentionSize& s) { return true_or_false(s.causal); },
     [](const AttentionSize& s) { return std::string(s.causal ? "causal" : "not causal"); }},
    {"dtype", [](const AttentionSize& s) { return s.dtype; },
     [](const AttentionSize& s) { return s.dtype; }},
    {"device", [](const AttentionSize& s) { return s.device; },
     [](const AttentionSize& s) { return s.device; }},
};

const OccasionalKey kBatchSize = {
    "batch_size", [](const AttentionSize& s) { return fmt::to_string(s.batch_size); },
    [](const AttentionSize& s) { return fmt::format("batch {}", s.batch_size); }};

bool differs(const AttentionRows& all, const OccasionalKey& key) {
  return std::any_of(all.rows.begin(), all.rows.end(), [&](const AttentionRow& row) {
    return key.cell(row.size) != key.cell(all.rows.front().size);
  });
}

std::vector<OccasionalKey> differing(const AttentionRows& all) {
  std::vector<OccasionalKey> keys;
  if (differs(all, kBatchSize)) keys.push_back(kBatchSize);
  for (const OccasionalKey& key : kOccasionalKeys)
    if (differs(all, key)) keys.push_back(key);
  return keys;
}

// The columns of a row's size, in reading order.
std::vector<std::string> size_columns(const std::vector<OccasionalKey>& keys) {
  std::vector<std::string> columns = {"d_model", "seq_len"};
  for (const OccasionalKey& key : keys) columns.push_back(key.name);
  return columns;
}

std::vector<std::string> size_cells(const std::vector<OccasionalKey>& keys,
                                    const AttentionSize& size) {
  std::vector<std::string> cells = {fmt::to_string(size.d_model), fmt::to_string(size.seq_len)};
  for (const OccasionalKey& key : keys) cells.push_back(key.cell(size));
  return cells;
}

// "batch 8, heads 1, not causal, fp32, cpu": what all rows share.
std::string shared_by_all(const AttentionRows& all) {
  if (all.rows.empty()) return "no rows";
  const AttentionSize& size = all.rows.front().size;
  std::string text = differs(all, kBatchSize) ? "" : kBatchSize.title(size);
  for (const OccasionalKey& key : kOccasionalKeys)
    if (!differs(all, key)) text += (text.empty() ? "" : ", ") + key.title(size);
  return text;
}

std::string mebibytes(const Record& record, std::optional<Bytes> bytes) {
  if (record.status != Status::ok || !bytes) return "";
  return fmt::format("{:.2f}", bytes->mebibytes());
}

// The ledger's peak; for a library without one, the growth of the process, marked with *.
std::string peak_cell(const Record& record) {
  if (record.memory.peak) return mebibytes(record, record.memory.peak);
  const std::string growth = mebibytes(record, record.memory.process_peak_growth);
  return growth.empty() ? growth : growth + "*";
}

std::string milliseconds(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 3 : value < 1000 ? 2 : 0);
}

std::optional<double> sum(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

// A median in ms, or the row's status instead.
std::string cell_of(const Record* record, std::string_view phase) {
  if (!record) return "-";
  if (const auto median = median_ms(*record, phase)) return milliseconds(*median);
  return record->status == Status::ok ? "-" : std::string(status_csv_word(record->status));
}

constexpr std::array kTimedPhases = {"forward", "backward"};

// The host-bound phases: "forward, backward".
std::string host_bound_phases(const Record& record) {
  std::string phases;
  for (const char* phase : kTimedPhases)
    if (is_host_bound(&record, phase)) phases += (phases.empty() ? "" : ", ") + std::string(phase);
  return phases;
}

std::string speedup_cell(const Record* base, const Record* other, std::string_view phase) {
  const auto base_ms = base ? median_ms(*base, phase) : std::nullopt;
  const auto other_ms = other ? median_ms(*other, phase) : std::nullopt;
  if (!base_ms || !other_ms || *other_ms <= 0) return "-";
  return times_text(*base_ms / *other_ms);
}

}  // namespace

Table attention_csv(std::span<const Record> records) {
  const AttentionRows all = attention_rows(records);
  Table table{.title = "attention: " + shared_by_all(all)};
  table.columns = {"batch_size", "seq_len", "d_model"};
  for (const OccasionalKey& key : kOccasionalKeys) table.columns.push_back(key.name);
  for (const char* name :
       {"implementation", "compiled", "backward", "forward_mean_ms", "forward_std_ms",
        "backward_mean_ms", "backward_std_ms", "total_mean_ms", "forward_median_ms",
        "backward_median_ms", "memory_before_backward_mb", "peak_memory_mb",
        "process_peak_growth_mb", "error_over_tolerance", "compile_seconds", "status", "error"})
    table.columns.emplace_back(name);
  const bool with_busy = tells_busy_time(records, "attention");
  if (with_busy)
    table.columns.insert(table.columns.end(),
                         {"forward_busy_ms", "backward_busy_ms", "host_bound"});

  for (const auto& [record, size, name] : all.rows) {
    std::vector<std::string> row = {fmt::to_string(size.batch_size), fmt::to_string(size.seq_len),
                                    fmt::to_string(size.d_model)};
    for (const OccasionalKey& key : kOccasionalKeys) row.push_back(key.cell(size));
    row.push_back(record->implementation);
    row.push_back(true_or_false(record->implementation.find("compile") != std::string::npos));
    row.push_back(text_of(record->settings, "backward"));
    std::optional<double> total = 0;
    for (const char* phase : kTimedPhases) {
      const auto mean = statistic(*record, phase, &Statistics::mean_ms);
      row.push_back(cell(mean));
      row.push_back(cell(statistic(*record, phase, &Statistics::std_ms)));
      total = sum(total, mean);
    }
    row.push_back(cell(total));
    for (const char* phase : kTimedPhases) row.push_back(cell(median_ms(*record, phase)));
    row.push_back(mebibytes(*record, record->memory.before_backward));
    row.push_back(mebibytes(*record, record->memory.peak));
    row.push_back(mebibytes(*record, record->memory.process_peak_growth));
    row.push_back(cell(worst_error(*record), "{:.4g}"));
    row.push_back(cell(metric_number(*record, "compile_seconds"), "{:.4g}"));
    row.emplace_back(status_csv_word(record->status));
    row.push_back(record->error.empty() ? ran_eagerly(*record) : record->error);
    if (with_busy) {
      for (const char* phase : kTimedPhases) row.push_back(cell(busy_ms(record, phase)));
      row.push_back(host_bound_phases(*record));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table attention_summary(std::span<const Record> records) {
  const AttentionRows all = attention_rows(records);
  const std::vector<OccasionalKey> keys = differing(all);
  const bool several = all.implementations.size() > 1;

  Table table{.title = "attention: " + shared_by_all(all) +
                       (several || all.rows.empty() ? "" : ", " + all.implementations.front()) +
                       "; medians, +-% " + interval_kind(rows_of_study(records, "attention")),
              .spare = {"error/tol", "total ms", "peak MiB"}};
  table.columns = size_columns(keys);
  if (several) table.columns.emplace_back("implementation");
  for (const char* name :
       {"forward ms", "backward ms", "total ms", "+-%", "peak MiB", "error/tol", "status"})
    table.columns.emplace_back(name);

  std::vector<std::vector<std::string>> busy;
  for (const auto& [record, size, name] : all.rows) {
    std::vector<std::string> row = size_cells(keys, size);
    if (several) row.push_back(name);
    const auto busy_total = sum(busy_ms(record, kTimedPhases[0]), busy_ms(record, kTimedPhases[1]));
    busy.push_back({busy_total ? milliseconds(*busy_total) : ""});
    std::optional<double> total = 0, half_width;
    for (const char* phase : kTimedPhases) {
      const auto median = median_ms(*record, phase);
      row.push_back(median ? milliseconds(*median) : "");
      total = sum(total, median);
      if (const auto percent = median ? in_run_percent(*record, phase) : std::nullopt)
        half_width = std::max(half_width.value_or(0), *percent);
    }
    row.push_back(total ? milliseconds(*total) : "");
    row.push_back(cell(half_width, "{:.1f}"));
    row.push_back(peak_cell(*record));
    row.push_back(cell(worst_error(*record), "{:.2g}"));
    row.emplace_back(status_csv_word(record->status));
    table.rows.push_back(std::move(row));
  }
  if (tells_busy_time(records, "attention")) insert_after(table, "total ms", {"busy ms"}, busy);
  return table;
}

std::vector<Table> attention_side_by_side(std::span<const Record> records,
                                          std::span<const std::string> implementations) {
  const AttentionRows all = attention_rows(records);
  std::vector<std::string> names(implementations.begin(), implementations.end());
  if (names.empty()) names = all.implementations;
  if (names.size() < 2) return {};
  const std::vector<OccasionalKey> keys = differing(all);

  std::map<AttentionSize, std::map<std::string, const Record*>> by_size;
  for (const AttentionRow& row : all.rows) by_size[row.size][row.implementation] = row.record;

  std::vector<Table> tables;
  for (const char* phase : kTimedPhases) {
    Table& table = tables.emplace_back();
    table.title =
        fmt::format("{}: {}; median ms, speedup over {}", phase, shared_by_all(all), names[0]);
    table.columns = size_columns(keys);
    table.columns.insert(table.columns.end(), names.begin(), names.end());
    for (size_t i = 1; i < names.size(); ++i) table.columns.push_back(names[i] + " speedup");
    // Left out first on a narrow terminal: the summary has all times.
    for (size_t i = names.size(); i-- > 1;) table.spare.push_back(names[i]);
    for (size_t i = names.size(); i-- > 2;) table.spare.push_back(names[i] + " speedup");

    for (const auto& [size, found] : by_size) {
      const auto of = [&, &present = found](const std::string& name) {
        const auto entry = present.find(name);
        return entry == present.end() ? nullptr : entry->second;
      };
      std::vector<std::string> row = size_cells(keys, size);
      for (const std::string& name : names) row.push_back(cell_of(of(name), phase));
      for (size_t i = 1; i < names.size(); ++i)
        row.push_back(speedup_cell(of(names[0]), of(names[i]), phase));
      table.rows.push_back(std::move(row));
    }
  }
  return tables;
}

std::string attention_memory_note(std::span<const Record> records) {
  for (const Record* record : rows_of_study(records, "attention"))
    if (peak_cell(*record).ends_with('*'))
      return "* growth of the process, as the operating system counts it: the library tells no "
             "peak";
  return {};
}

const Record* smallest_oom(std::span<const Record> records) {
  const AttentionRows all = attention_rows(records);
  const AttentionRow* row = smallest_oom_row(all.rows);
  return row ? row->record : nullptr;
}

}  // namespace ridgeline
