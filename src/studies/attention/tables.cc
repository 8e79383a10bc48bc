#include "studies/attention/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

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
    {"batch_size", [](const AttentionSize& s) { return fmt::to_string(s.batch_size); },
     [](const AttentionSize& s) { return fmt::format("batch {}", s.batch_size); }},
    {"heads", [](const AttentionSize& s) { return fmt::to_string(s.heads); },
     [](const AttentionSize& s) { return fmt::format("heads {}", s.heads); }},
    {"causal", [](const AttentionSize& s) { return true_or_false(s.causal); },
     [](const AttentionSize& s) { return std::string(s.causal ? "causal" : "not causal"); }},
    {"dtype", [](const AttentionSize& s) { return s.dtype; },
     [](const AttentionSize& s) { return s.dtype; }},
    {"device", [](const AttentionSize& s) { return s.device; },
     [](const AttentionSize& s) { return s.device; }},
};

bool differs(const AttentionRows& all, const OccasionalKey& key) {
  return std::any_of(all.rows.begin(), all.rows.end(), [&](const AttentionRow& row) {
    return key.cell(row.size) != key.cell(all.rows.front().size);
  });
}

// The columns of a row's size in which rows differ, in reading order.
template <class Row>
std::vector<Column<Row>> size_columns(const AttentionRows& all) {
  std::vector<Column<Row>> columns = {
      {"d_model", [](const Row& row) { return fmt::to_string(row.size.d_model); }},
      {"seq_len", [](const Row& row) { return fmt::to_string(row.size.seq_len); }}};
  for (const OccasionalKey& key : kOccasionalKeys)
    columns.push_back(
        {key.name, [key](const Row& row) { return key.cell(row.size); }, differs(all, key)});
  return columns;
}

// "batch 8, heads 1, not causal, fp32, cpu": what all rows share.
std::string shared_by_all(const AttentionRows& all) {
  if (all.rows.empty()) return "no rows";
  const AttentionSize& size = all.rows.front().size;
  std::string text;
  for (const OccasionalKey& key : kOccasionalKeys)
    if (!differs(all, key)) text += (text.empty() ? "" : ", ") + key.title(size);
  return text;
}

// Of rows that are ok.
RecordCell memory_of(std::optional<Bytes> MemoryFacts::*which, const char* format = "{:.6g}") {
  return [=](const RecordRow& row) {
    return row.record->status == Status::ok ? memory_cell(which, format)(row) : std::string();
  };
}

// Three figures of what so many decimals would round to less.
std::string with_decimals(double value, int decimals) {
  constexpr int kFigures = 3;
  const bool is_small = std::abs(value) < std::pow(10.0, kFigures - 1 - decimals);
  return is_small ? fmt::format("{:.{}g}", value, kFigures)
                  : fmt::format("{:.{}f}", value, decimals);
}

std::string mebibytes_cell(const std::optional<Bytes>& bytes) {
  return bytes ? with_decimals(bytes->mebibytes(), 2) : std::string();
}

// The ledger's peak; for a library without one, the growth of the process, marked with *.
std::string peak_cell(const RecordRow& row) {
  const MemoryFacts& memory = row.record->memory;
  if (row.record->status != Status::ok) return {};
  if (memory.peak) return mebibytes_cell(memory.peak);
  const std::string growth = mebibytes_cell(memory.process_peak_growth);
  return growth.empty() ? growth : growth + "*";
}

std::string milliseconds(std::optional<double> value) {
  if (!value) return {};
  return with_decimals(*value, *value < 10 ? 3 : *value < 1000 ? 2 : 0);
}

// A median in ms, or the row's status instead.
std::string cell_of(const Record* record, std::string_view phase) {
  if (!record) return "-";
  if (const auto median = median_ms(*record, phase)) return milliseconds(median);
  return record->status == Status::ok ? "-" : std::string(status_csv_word(record->status));
}

constexpr std::array kTimedPhases = {"forward", "backward"};

// The sum over both phases; nullopt if either has no value.
template <class Of>
std::optional<double> total(Of of) {
  const std::optional<double> forward = of(kTimedPhases[0]), backward = of(kTimedPhases[1]);
  return forward && backward ? std::optional(*forward + *backward) : std::nullopt;
}

// The larger half-width of the medians.
std::string larger_in_run_cell(const RecordRow& row) {
  std::optional<double> half_width;
  for (const char* phase : kTimedPhases)
    if (median_ms(*row.record, phase))
      half_width = std::max(half_width, in_run_percent(*row.record, phase));
  return cell(half_width, "{:.1f}");
}

// The host-bound phases: "forward, backward".
std::string host_bound_phases(const RecordRow& row) {
  std::string phases;
  for (const char* phase : kTimedPhases)
    if (is_host_bound(row.record, phase))
      phases += (phases.empty() ? "" : ", ") + std::string(phase);
  return phases;
}

// The records of one size, by implementation.
struct RowsOfSize {
  AttentionSize size;
  std::map<std::string, const Record*> records = {};

  const Record* find(const std::string& implementation) const {
    const auto found = records.find(implementation);
    return found == records.end() ? nullptr : found->second;
  }
};

std::string speedup_cell(const Record* base, const Record* other, std::string_view phase) {
  const auto base_ms = base ? median_ms(*base, phase) : std::nullopt;
  const auto other_ms = other ? median_ms(*other, phase) : std::nullopt;
  if (!base_ms || !other_ms || *other_ms <= 0) return "-";
  return times_text(*base_ms / *other_ms);
}

}  // namespace

Table attention_csv(const RecordRefs& records) {
  using Row = AttentionRow;
  const AttentionRows all = attention_rows(records);
  const bool with_busy = tells_busy_time(records, "attention");
  const auto statistic_of = [](const char* phase, double Statistics::*which) {
    return [=](const Row& row) { return cell(statistic(*row.record, phase, which)); };
  };
  const auto busy = [](const char* phase) {
    return [=](const Row& row) { return cell(busy_ms(row.record, phase)); };
  };
  std::vector<Column<Row>> columns;
  for (const OccasionalKey& key : kOccasionalKeys)
    columns.push_back({key.name, [key](const Row& row) { return key.cell(row.size); }});
  columns.insert(columns.begin() + 1,
                 {{"seq_len", workload_cell("seq_len")}, {"d_model", workload_cell("d_model")}});
  append<Row>(columns, {{"implementation", implementation_cell},
                        {"compiled",
                         [](const Row& row) {
                           return true_or_false(row.record->implementation.find("compile") !=
                                                std::string::npos);
                         }},
                        {"backward", setting_cell("backward")},
                        {"forward_mean_ms", statistic_of("forward", &Statistics::mean_ms)},
                        {"forward_std_ms", statistic_of("forward", &Statistics::std_ms)},
                        {"backward_mean_ms", statistic_of("backward", &Statistics::mean_ms)},
                        {"backward_std_ms", statistic_of("backward", &Statistics::std_ms)},
                        {"total_mean_ms",
                         [](const Row& row) {
                           return cell(total([&](const char* phase) {
                             return statistic(*row.record, phase, &Statistics::mean_ms);
                           }));
                         }},
                        {"forward_median_ms", median_cell("forward")},
                        {"backward_median_ms", median_cell("backward")},
                        {"memory_before_backward_mb", memory_of(&MemoryFacts::before_backward)},
                        {"peak_memory_mb", memory_of(&MemoryFacts::peak)},
                        {"process_peak_growth_mb", memory_of(&MemoryFacts::process_peak_growth)},
                        {"error_over_tolerance",
                         [](const Row& row) { return cell(worst_error(*row.record), "{:.4g}"); }},
                        {"compile_seconds", number_cell("compile_seconds", "{:.4g}")},
                        {"status", status_cell},
                        {"error",
                         [](const Row& row) {
                           return row.record->error.empty() ? ran_eagerly(*row.record)
                                                            : row.record->error;
                         }},
                        {"forward_busy_ms", busy("forward"), with_busy},
                        {"backward_busy_ms", busy("backward"), with_busy},
                        {"host_bound", host_bound_phases, with_busy}});
  return table_of("attention: " + shared_by_all(all), columns, all.rows);
}

Table attention_summary(const RecordRefs& records) {
  using Row = AttentionRow;
  const AttentionRows all = attention_rows(records);
  const bool several = all.implementations.size() > 1;
  const auto time = [](const char* phase) {
    return [=](const Row& row) { return milliseconds(median_ms(*row.record, phase)); };
  };
  std::vector<Column<Row>> columns = size_columns<Row>(all);
  append<Row>(
      columns,
      {{"implementation", [](const Row& row) { return row.implementation; }, several},
       {"forward ms", time("forward")},
       {"backward ms", time("backward")},
       {"total ms",
        [](const Row& row) {
          return milliseconds(
              total([&](const char* phase) { return median_ms(*row.record, phase); }));
        }},
       {"busy ms",
        [](const Row& row) {
          return milliseconds(total([&](const char* phase) { return busy_ms(row.record, phase); }));
        },
        tells_busy_time(records, "attention")},
       {"+-%", larger_in_run_cell},
       {"peak MiB", peak_cell},
       {"error/tol", [](const Row& row) { return cell(worst_error(*row.record), "{:.2g}"); }},
       {"status", status_cell}});
  return table_of("attention: " + shared_by_all(all) +
                      (several || all.rows.empty() ? "" : ", " + all.implementations.front()) +
                      "; medians, +-% " + interval_kind(rows_of_study(records, "attention")),
                  columns, all.rows, {"error/tol", "total ms", "peak MiB", "busy ms"});
}

std::vector<Table> attention_side_by_side(const RecordRefs& records,
                                          std::span<const std::string> implementations) {
  const AttentionRows all = attention_rows(records);
  std::vector<std::string> names(implementations.begin(), implementations.end());
  if (names.empty()) names = all.implementations;
  if (names.size() < 2) return {};

  std::vector<RowsOfSize> sizes;
  for (const AttentionRow& row : all.rows) {
    if (sizes.empty() || sizes.back().size != row.size) sizes.push_back({row.size});
    sizes.back().records[row.implementation] = row.record;
  }

  std::vector<Table> tables;
  for (const char* phase : kTimedPhases) {
    std::vector<Column<RowsOfSize>> columns = size_columns<RowsOfSize>(all);
    for (const std::string& name : names)
      columns.push_back(
          {name, [=](const RowsOfSize& row) { return cell_of(row.find(name), phase); }});
    for (size_t i = 1; i < names.size(); ++i)
      columns.push_back(
          {names[i] + " speedup", [=, base = names[0], name = names[i]](const RowsOfSize& row) {
             return speedup_cell(row.find(base), row.find(name), phase);
           }});
    // Left out first on a narrow terminal: the summary has all times.
    std::vector<std::string> spare;
    for (size_t i = names.size(); i-- > 1;) spare.push_back(names[i]);
    for (size_t i = names.size(); i-- > 2;) spare.push_back(names[i] + " speedup");
    tables.push_back(table_of(
        fmt::format("{}: {}; median ms, speedup over {}", phase, shared_by_all(all), names[0]),
        columns, sizes, spare));
  }
  return tables;
}

std::string attention_memory_note(const RecordRefs& records) {
  for (const Record* record : rows_of_study(records, "attention"))
    if (peak_cell({record}).ends_with('*'))
      return "* growth of the process, as the operating system counts it: the library tells no "
             "peak";
  return {};
}

const Record* smallest_oom(const RecordRefs& records) {
  const AttentionRows all = attention_rows(records);
  const AttentionRow* row = smallest_oom_row(all.rows);
  return row ? row->record : nullptr;
}

}  // namespace ridgeline
