#include "studies/profile/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "report/record_cells.h"
#include "report/terminal/utilisation_cells.h"
#include "studies/profile/fold_rows.h"

namespace ridgeline {
namespace {

constexpr const char* kCsvFolds[] = {"phase", "category", "scope", "kernel"};

std::vector<const Record*> profile_rows(std::span<const Record> records) {
  return rows_of_study(records, "profile");
}

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

struct FoldColumn {
  std::string name;
  std::function<std::string(const FoldRow&)> text;
};

// Columns that a narrow terminal may drop, least important first.
constexpr const char* kSpareColumns[] = {"imbalance %", "GB/s",         "kernels",
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

Table profile_csv(std::span<const Record> records) {
  Table table{.title = "profile", .columns = {std::begin(kProfileSizes), std::end(kProfileSizes)}};
  table.columns.insert(table.columns.end(), {"implementation",
                                             "device",
                                             "by",
                                             "name",
                                             "category",
                                             "phase",
                                             "scope",
                                             "kernels",
                                             "invocations",
                                             "total_ms",
                                             "mean_us",
                                             "share_pct",
                                             "flops_per_s",
                                             "bytes_per_s",
                                             "roof_pct",
                                             "predicted_us",
                                             "prediction_error_pct",
                                             "imbalance_pct",
                                             "source",
                                             "status",
                                             "error"});
  const size_t folds_end = table.columns.size() - 3;
  table.columns.insert(table.columns.end(), kUtilisationCsv.begin(), kUtilisationCsv.end());
  for (const Record* record : profile_rows(records)) {
    std::vector<std::string> identity;
    for (const char* key : kProfileSizes) identity.push_back(text_of(record->workload, key));
    identity.insert(identity.end(), {record->implementation, record->device});
    const auto add = [&](std::vector<std::string> cells) {
      std::vector<std::string> row = identity;
      row.insert(row.end(), cells.begin(), cells.end());
      row.resize(folds_end);
      row.insert(row.end(), {record->metrics ? text_of(*record->metrics, "source") : "",
                             std::string(status_csv_word(record->status)), record->error});
      for (std::string& text : utilisation_csv(utilization_in(*record)))
        row.push_back(std::move(text));
      table.rows.push_back(std::move(row));
    };
    bool has_folds = false;
    for (const char* by : kCsvFolds)
      for (const FoldRow& row : fold_rows(*record, by)) {
        has_folds = true;
        add({by, row.key, row.category, row.phase, row.scope, cell(row.kernels),
             cell(row.invocations), cell(row.total_ms), cell(row.mean_us),
             cell(row.share, "{:.6g}", 100), cell(row.flops_per_s), cell(row.bytes_per_s),
             cell(row.roof_share, "{:.6g}", 100), cell(row.predicted_us),
             cell(row.prediction_error, "{:.6g}", 100), cell(row.imbalance, "{:.6g}", 100)});
      }
    if (!has_folds) add({});
  }
  return table;
}

Table profile_folds(const Record& record, std::string_view by, size_t top) {
  const std::vector<FoldRow> all = fold_rows(record, by);
  const size_t shown = std::min(top, all.size());
  Table table{.title = fmt::format(
                  "by {}, of one step{}", by,
                  shown < all.size() ? fmt::format("; {} of {} rows", shown, all.size()) : "")};
  table.rows.resize(shown);
  for (const FoldColumn& column : fold_columns(by, all)) {
    table.columns.push_back(column.name);
    for (size_t i = 0; i < shown; ++i) table.rows[i].push_back(column.text(all[i]));
  }
  for (const char* name : kSpareColumns)
    if (std::ranges::find(table.columns, name) != table.columns.end())
      table.spare.emplace_back(name);
  return table;
}

Table profile_modes(std::span<const Record> records) {
  const std::vector<const Record*> rows = profile_rows(records);
  // A CPU runs its work itself, so nothing waits there.
  const bool can_wait = std::ranges::any_of(rows, [](const Record* record) {
    return time_of(*record, "waited_for_host_ms").has_value();
  });
  Table table{
      .title =
          "modes side by side, of one step: step and traced are medians, busy and waits means over "
          "the traced steps",
      .columns = {"workload", "implementation", "kernels", "invocations", "starts", "step ms",
                  "traced ms", "busy ms"},
      .rows = {},
      .spare = {"matmul %", "step ms"}};
  if (can_wait) {
    table.columns.insert(table.columns.end(), {"host wait ms", "gaps ms", "waits %"});
    table.spare.insert(table.spare.begin(), "gaps ms");
  }
  const bool tells_use = std::ranges::any_of(rows, [](const Record* record) {
    return !utilisation_cells(utilization_in(*record))[0].empty();
  });
  if (tells_use)
    for (const char* column : kUtilisationColumns) {
      table.columns.emplace_back(column);
      table.spare.emplace_back(column);
    }
  table.columns.insert(table.columns.end(), {"matmul %", "status"});
  for (const Record* record : rows) {
    const std::vector<FoldRow> phases = fold_rows(*record, "phase");
    const Json metrics = record->metrics.value_or(Json::object());
    const auto span = time_of(*record, "span_ms"), busy = time_of(*record, "busy_ms");
    std::vector<std::string> cells = {
        profile_workload_name(*record),
        record->implementation,
        phases.empty() ? "" : cell(kernel_names(*record), "{:.0f}"),
        phases.empty() ? "" : cell(sum_of(phases, &FoldRow::invocations)),
        cell(number_in(metrics, "starts")),
        cell(number_in(metrics, "untraced_step_ms"), "{:.4f}"),
        cell(number_in(metrics, "traced_step_ms"), "{:.4f}"),
        cell(busy, "{:.4f}")};
    if (can_wait) {
      std::optional<double> waits;
      if (span && busy && *span > 0) waits = (*span - *busy) / *span;
      cells.insert(cells.end(),
                   {cell(time_of(*record, "waited_for_host_ms"), "{:.4f}"),
                    cell(time_of(*record, "own_gaps_ms"), "{:.4f}"), cell(waits, "{:.1f}", 100)});
    }
    if (tells_use)
      for (std::string& text : utilisation_cells(utilization_in(*record)))
        cells.push_back(std::move(text));
    cells.push_back(cell(metric_in(record->metrics, "matmul_share", "step"), "{:.1f}", 100));
    cells.emplace_back(status_csv_word(record->status));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string profile_name(const Record& record) {
  return fmt::format("{}, {}", profile_workload_name(record), record.implementation);
}

std::vector<std::string> profile_notes(std::span<const Record> records) {
  std::vector<std::string> notes;
  const auto add = [&](std::string note) { add_once(notes, std::move(note)); };
  bool has_folds = false, has_predictions = false;
  for (const Record* record : profile_rows(records)) {
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
    if (traced && untraced && cost)
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
  std::vector<const Json*> used;
  for (const Record* record : profile_rows(records)) used.push_back(utilization_in(*record));
  for (std::string& note : utilisation_notes(used)) add(std::move(note));
  for (std::string& sentence : inference_against_training(records)) add(std::move(sentence));
  if (has_folds && !has_predictions)
    add("no ceilings of this device are known, so nothing is predicted: `ridgeline roofline` "
        "measures them");
  return notes;
}

}  // namespace ridgeline
