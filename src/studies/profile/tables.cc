#include "studies/profile/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/terminal/utilisation_cells.h"
#include "studies/profile/fold_rows.h"

namespace ridgeline {
namespace {

constexpr const char* kCsvFolds[] = {"phase", "category", "scope", "kernel"};

std::optional<double> time_of(const Record& record, const char* name) {
  return metric_in(record.metrics, "device_time", name);
}

double sum_of(const std::vector<FoldRow>& rows, std::optional<double> FoldRow::*which) {
  double sum = 0;
  for (const FoldRow& row : rows) sum += (row.*which).value_or(0);
  return sum;
}

// Older records lack the count, and their folds may leave kernels out.
double kernel_names(const Record& record) {
  if (const auto kernels = number_in(*record.metrics, "kernels")) return *kernels;
  std::set<std::string> names;
  for (const FoldRow& row : fold_rows(record, "kernel")) names.insert(row.key);
  return static_cast<double>(names.size());
}

using FoldColumn = Column<FoldRow>;

// A row of a fold in the CSV; a record without folds has one row without a fold.
struct FoldOfRecord : RecordRow {
  std::string by;
  FoldRow fold;
};

Column<FoldOfRecord> fold_number(const char* name, std::optional<double> FoldRow::*which,
                                 double factor = 1) {
  return {name, [=](const FoldOfRecord& row) { return cell(row.fold.*which, "{:.6g}", factor); }};
}

// Columns that a narrow terminal may drop, least important first.
const std::vector<std::string> kSpareColumns = {"imbalance %", "GB/s",         "kernels",
                                                "GFLOP/s",     "category",     "scope",
                                                "roof %",      "predicted us", "error %"};

std::vector<FoldColumn> fold_columns(std::string_view by, const std::vector<FoldRow>& rows) {
  const auto number = [](const char* name, std::optional<double> FoldRow::*which,
                         const char* format, double factor = 1) {
    return FoldColumn{name, [=](const FoldRow& row) { return cell(row.*which, format, factor); }};
  };
  const bool is_kernel = by == "kernel", is_scope = by == "scope";
  std::vector<FoldColumn> columns = {{std::string(by), [](const FoldRow& row) { return row.key; }}};
  if (is_kernel || is_scope)
    columns.push_back({"phase", [](const FoldRow& row) { return row.phase; }});
  if (is_kernel) {
    columns.push_back({"category", [](const FoldRow& row) { return row.category; }});
    if (std::ranges::any_of(rows, [](const FoldRow& row) { return !row.scope.empty(); }))
      columns.push_back({"scope", [](const FoldRow& row) { return row.scope; }});
  } else {
    columns.push_back(number("kernels", &FoldRow::kernels, "{:.0f}"));
  }
  columns.push_back(number("invocations", &FoldRow::invocations, "{:.6g}"));
  columns.push_back(number("total ms", &FoldRow::total_ms, "{:.4f}"));
  columns.push_back(number("mean us", &FoldRow::mean_us, "{:.2f}"));
  columns.push_back(number("share %", &FoldRow::share, "{:.1f}", 100));
  if (std::ranges::any_of(rows, [](const FoldRow& row) { return row.flops_per_s.has_value(); })) {
    columns.push_back(number("GFLOP/s", &FoldRow::flops_per_s, "{:.1f}", 1e-9));
    columns.push_back(number("GB/s", &FoldRow::bytes_per_s, "{:.1f}", 1e-9));
  }
  if (std::ranges::any_of(rows, [](const FoldRow& row) { return row.predicted_us.has_value(); })) {
    columns.push_back(number("predicted us", &FoldRow::predicted_us, "{:.2f}"));
    columns.push_back(number("error %", &FoldRow::prediction_error, "{:+.0f}", 100));
    columns.push_back(number("roof %", &FoldRow::roof_share, "{:.1f}", 100));
  }
  if (sum_of(rows, &FoldRow::imbalance) > 0)
    columns.push_back(number("imbalance %", &FoldRow::imbalance, "{:.1f}", 100));
  return columns;
}

// "not counted: cycles, instructions (the processor offers no such counter here)"; empty: none.
std::string not_counted(const Json* unsupported) {
  if (unsupported == nullptr || !unsupported->is_object()) return {};
  std::map<std::string, std::string> names;  // by reason
  for (const auto& [name, reason] : unsupported->items()) {
    if (!reason.is_string()) continue;
    std::string& of_reason = names[reason.text()];
    of_reason += (of_reason.empty() ? "" : ", ") + std::string(name);
  }
  std::string text;
  for (const auto& [reason, which] : names)
    text += fmt::format("{}{} ({})", text.empty() ? "not counted: " : "; ", which, reason);
  return text;
}

}  // namespace

Table profile_csv(const RecordRefs& records) {
  std::vector<FoldOfRecord> rows;
  for (const RecordRow& row : record_rows(rows_of_study(records, "profile"))) {
    const size_t before = rows.size();
    for (const char* by : kCsvFolds)
      for (const FoldRow& fold : fold_rows(*row.record, by)) rows.push_back({row, by, fold});
    if (rows.size() == before) rows.push_back({row, {}, {}});
  }
  std::vector<Column<FoldOfRecord>> columns;
  append(columns, workload_columns({std::begin(kProfileSizes), std::end(kProfileSizes)}));
  append<FoldOfRecord>(columns,
                       {{"implementation", implementation_cell},
                        {"device", device_cell},
                        {"by", [](const FoldOfRecord& row) { return row.by; }},
                        {"name", [](const FoldOfRecord& row) { return row.fold.key; }},
                        {"category", [](const FoldOfRecord& row) { return row.fold.category; }},
                        {"phase", [](const FoldOfRecord& row) { return row.fold.phase; }},
                        {"scope", [](const FoldOfRecord& row) { return row.fold.scope; }},
                        fold_number("kernels", &FoldRow::kernels),
                        fold_number("invocations", &FoldRow::invocations),
                        fold_number("total_ms", &FoldRow::total_ms),
                        fold_number("mean_us", &FoldRow::mean_us),
                        fold_number("share_pct", &FoldRow::share, 100),
                        fold_number("flops_per_s", &FoldRow::flops_per_s),
                        fold_number("bytes_per_s", &FoldRow::bytes_per_s),
                        fold_number("roof_pct", &FoldRow::roof_share, 100),
                        fold_number("predicted_us", &FoldRow::predicted_us),
                        fold_number("prediction_error_pct", &FoldRow::prediction_error, 100),
                        fold_number("imbalance_pct", &FoldRow::imbalance, 100),
                        {"source", metric_text_cell("source")},
                        {"status", status_cell},
                        {"error", error_cell}});
  append(columns, utilisation_csv_columns());
  return table_of("profile", columns, rows);
}

Table profile_folds(const Record& record, std::string_view by, size_t top) {
  const std::vector<FoldRow> all = fold_rows(record, by);
  const size_t shown = std::min(top, all.size());
  return table_of(
      fmt::format("by {}, of one step{}", by,
                  shown < all.size() ? fmt::format("; {} of {} rows", shown, all.size()) : ""),
      fold_columns(by, all), std::span(all).first(shown), kSpareColumns);
}

Table profile_modes(const RecordRefs& records) {
  const std::vector<RecordRow> rows = record_rows(rows_of_study(records, "profile"));
  // A CPU runs its work itself, so nothing waits there.
  const bool can_wait = std::ranges::any_of(rows, [](const RecordRow& row) {
    return time_of(*row.record, "waited_for_host_ms").has_value();
  });
  const auto device_time = [](const char* name) -> RecordCell {
    return [name](const RecordRow& row) { return cell(time_of(*row.record, name), "{:.4f}"); };
  };
  std::vector<RecordColumn> columns = {
      {"workload", [](const RecordRow& row) { return profile_workload_name(*row.record); }},
      {"implementation", implementation_cell},
      {"kernels",
       [](const RecordRow& row) {
         const bool has_folds = !fold_rows(*row.record, "phase").empty();
         return has_folds ? cell(kernel_names(*row.record), "{:.0f}") : std::string();
       }},
      {"invocations",
       [](const RecordRow& row) {
         const std::vector<FoldRow> phases = fold_rows(*row.record, "phase");
         return phases.empty() ? std::string() : cell(sum_of(phases, &FoldRow::invocations));
       }},
      {"starts", number_cell("starts")},
      {"step ms", number_cell("untraced_step_ms", "{:.4f}")},
      {"traced ms", number_cell("traced_step_ms", "{:.4f}")},
      {"busy ms", device_time("busy_ms")},
      {"host wait ms", device_time("waited_for_host_ms"), can_wait},
      {"gaps ms", device_time("own_gaps_ms"), can_wait},
      {"waits %",
       [](const RecordRow& row) {
         const auto span = time_of(*row.record, "span_ms"), busy = time_of(*row.record, "busy_ms");
         if (!span || !busy || !(*span > 0)) return std::string();
         return cell((*span - *busy) / *span, "{:.1f}", 100);
       },
       can_wait}};
  append(columns, utilisation_columns(rows));
  append<RecordRow>(columns, {{"matmul %",
                               [](const RecordRow& row) {
                                 return cell(metric_in(row.record->metrics, "matmul_share", "step"),
                                             "{:.1f}", 100);
                               }},
                              {"status", status_cell}});
  return table_of(
      "modes side by side, of one step: step and traced are medians, busy and waits means over the "
      "traced steps",
      columns, rows, {"gaps ms", "matmul %", "step ms", "SM %", "tensor %", "DRAM GB/s"});
}

std::string profile_name(const Record& record) {
  return fmt::format("{}, {}", profile_workload_name(record), record.implementation);
}

std::vector<std::string> profile_notes(const RecordRefs& records) {
  std::vector<std::string> notes;
  const auto add = [&](std::string note) { add_once(notes, std::move(note)); };
  bool has_folds = false, has_predictions = false;
  for (const Record* record : rows_of_study(records, "profile")) {
    if (record->status != Status::ok) {
      add(fmt::format("{}: {}: {}", profile_name(*record), status_csv_word(record->status),
                      record->error));
      continue;
    }
    if (!record->metrics) continue;
    const Json& metrics = *record->metrics;
    if (const std::string source = text_of(metrics, "source"); !source.empty()) {
      const std::string why_not = text_of(metrics, "why_not_cupti");
      add(fmt::format("times are by {}{}", source, why_not.empty() ? "" : ": " + why_not));
    }
    const bool is_peers = metrics.contains("peer");
    if (is_peers)
      add("kernels of other libraries have no scopes, FLOPs or predictions; their models have our "
          "shapes with weights of their own");
    for (const FoldRow& row : fold_rows(*record, "kernel")) {
      if (is_peers) break;  // nothing is predicted of them
      has_folds = true;
      if (!row.predicted_us) continue;
      has_predictions = true;
      add("predicted is the least time below " + text_of(metrics, "predicted_by") +
          "; error is by how much longer the kernel took");
      break;
    }
    const std::string name = profile_name(*record);
    const auto traced = number_in(metrics, "traced_step_ms"),
               untraced = number_in(metrics, "untraced_step_ms"),
               cost = number_in(metrics, "tracing_cost");
    const std::string other_work =
        record->disturbance ? disturbance_text(*record->disturbance) : std::string();
    if (traced && untraced && cost && !other_work.empty())
      add(
          fmt::format("{}: a step takes {:.4g} ms with tracing and {:.4g} ms without, which does "
                      "not say what tracing costs: {} meanwhile",
                      name, *traced, *untraced, other_work));
    else if (traced && untraced && cost)
      add(fmt::format("{}: tracing costs {} of a step: {:.4g} ms with it, {:.4g} ms without", name,
                      *cost > 0 ? fmt::format("{:.1f} %", 100 * *cost) : "nothing to be seen",
                      *traced, *untraced));
    else if (traced)
      add(
          fmt::format("{}: what tracing costs was not measured, as it can be stopped once in a "
                      "process: profile it by itself",
                      name));
    for (const auto& [key, words] :
         {std::pair("unmapped", is_peers ? "pieces of work were started in no phase"
                                         : "pieces of work belong to no node of the graph"),
          {"dropped", "records were lost, as buffers were full"},
          {"not_timed", "records came without times and are left out"}})
      if (const auto count = number_in(metrics, key); count && *count > 0)
        add(fmt::format("{}: {:.0f} {}", name, *count, words));
    if (const Json* events = metrics.find_key("cpu_events"))
      add(not_counted(events->find_key("unsupported")));
    if (const std::string why = text_of(metrics, "ran_eagerly_because"); !why.empty())
      add(fmt::format("{}: ran eagerly: {}", name, why));
    if (const std::string why = text_of(metrics, "trace_not_written"); !why.empty())
      add(fmt::format("{}: its trace was not written: {}", name, why));
  }
  for (std::string& note : utilisation_notes(record_rows(rows_of_study(records, "profile"))))
    add(std::move(note));
  for (std::string& sentence : inference_against_training(records)) add(std::move(sentence));
  if (has_folds && !has_predictions)
    add("no ceilings of this device are known, so nothing is predicted: `ridgeline roofline` "
        "measures them");
  return notes;
}

}  // namespace ridgeline
