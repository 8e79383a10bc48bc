#include "studies/precision/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/record_cells.h"
#include "studies/precision/model_rows.h"
#include "studies/precision/training_rows.h"

namespace ridgeline {
namespace {

using Number = std::optional<double>;
using Rows = std::vector<const Record*>;

constexpr const char* kStudy = "precision";

std::string word(const Record& record, const char* key) {
  return text_of(record.workload, key);
}

Number metric(const Record& record, const char* name) {
  return record.metrics ? number_in(*record.metrics, name) : std::nullopt;
}

Rows rows_of_part(std::span<const Record> records, std::string_view part) {
  Rows rows = rows_of_study(records, kStudy);
  std::erase_if(rows, [&](const Record* record) { return word(*record, "part") != part; });
  return rows;
}

// Rows that have an error.
Rows reductions(std::span<const Record> records) {
  Rows rows = rows_of_study(records, kStudy);
  std::erase_if(rows, [](const Record* record) {
    return !record->metrics || !record->metrics->contains("overflowed");
  });
  return rows;
}

// NaN if overflow left no number.
double error_in(const Record& record, const char* name = "total_error") {
  return metric(record, name).value_or(std::nan(""));
}

struct StageOfFlow {
  std::string stage, tensor, dtype;
};
std::vector<StageOfFlow> stages_in(const Record& record) {
  std::vector<StageOfFlow> stages;
  const Json* listed = record.metrics ? record.metrics->find_key("stages") : nullptr;
  if (listed == nullptr || !listed->is_array()) return stages;
  for (const Json& stage : *listed)
    if (stage.is_object())
      stages.push_back(
          {text_of(stage, "stage"), text_of(stage, "tensor"), text_of(stage, "dtype")});
  return stages;
}

std::string percent(double share) {
  return fmt::format("{:+.3g} %", 100 * share);
}

const Record* find_reduction(const Rows& rows, std::string_view op, std::string_view pair,
                             std::string_view length = {}, std::string_view magnitude = {}) {
  for (const Record* record : rows)
    if (word(*record, "op") == op && record->implementation == pair &&
        (length.empty() || word(*record, "length") == length) &&
        (magnitude.empty() || word(*record, "magnitude") == magnitude))
      return record;
  return nullptr;
}

// 1000 x 0.01 for every pair of formats.
Table repeated_table(const Rows& rows) {
  Table table{.title = "1000 x 0.01 = 10, one addition after the other; errors in percent of 10",
              .columns = {"values", "sum", "result", "error", "representation", "accumulation",
                          "cause", "unchanged after"}};
  for (const Record* record : rows) {
    if (word(*record, "op") != "repeated") continue;
    std::vector<std::string> row = {word(*record, "value_dtype"),
                                    word(*record, "accumulator_dtype"),
                                    cell(metric(*record, "result"), "{:.10g}")};
    for (const char* name : {"total_error", "representation_error", "accumulation_error"})
      row.push_back(cell(metric(*record, name), "{:+.3g}", 100));
    row.push_back(cause_of(*record));
    row.push_back(cell(metric(*record, "stalled_at"), "{:.0f}"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// A line per op, magnitude and pair of formats, a column per length.
Table growth_table(const Rows& rows, bool norms) {
  Table table{.title = norms
                           ? "norms: the largest error of an element, in parts of the elements' "
                             "root mean square (a: mostly accumulation, r: mostly representation, "
                             "!: overflow)"
                           : "sums, dot products (in parts of the sum of magnitudes) and softmax "
                             "(the sum of |p - exact p|) by length (a: mostly accumulation, "
                             "r: mostly representation)",
              .columns = {"op", "values/sum"}};
  if (norms) table.columns.insert(table.columns.begin() + 1, "magnitude");
  std::set<int64_t> lengths;
  std::map<std::vector<std::string>, std::map<int64_t, const Record*>> lines;
  std::vector<std::vector<std::string>> order;
  for (const Record* record : rows) {
    if (word(*record, "op") == "repeated" || (word(*record, "part") == "norm") != norms) continue;
    const int64_t length = static_cast<int64_t>(number_in(record->workload, "length").value_or(0));
    std::vector<std::string> line = {word(*record, "op"), record->implementation};
    if (norms) line.insert(line.begin() + 1, word(*record, "magnitude"));
    if (!lines.contains(line)) order.push_back(line);
    lines[line][length] = record;
    lengths.insert(length);
  }
  for (const int64_t length : lengths) table.columns.push_back(fmt::to_string(length));
  for (const std::vector<std::string>& line : order) {
    std::vector<std::string> row = line;
    for (const int64_t length : lengths) {
      const auto found = lines[line].find(length);
      if (found == lines[line].end()) {
        row.emplace_back();
        continue;
      }
      const Record& record = *found->second;
      const std::string cause = cause_of(record);
      const bool overflowed = text_of(*record.metrics, "overflowed") == "True";
      row.push_back(fmt::format("{:.2g} {}{}", std::abs(error_in(record)),
                                cause == "accumulation"     ? "a"
                                : cause == "representation" ? "r"
                                                            : "",
                                overflowed ? "!" : ""));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// A line per stage, a column per model and autocast dtype.
Table flow_table(const Rows& rows) {
  Table table{.title = "dtypes under autocast, read from the graph", .columns = {"stage"}};
  std::vector<std::string> order;
  std::map<std::string, std::map<std::string, std::string>> cells;
  for (const Record* record : rows) {
    const std::string column =
        fmt::format("{} {}", word(*record, "model"), word(*record, "autocast"));
    table.columns.push_back(column);
    for (const StageOfFlow& stage : stages_in(*record)) {
      if (!cells.contains(stage.stage)) order.push_back(stage.stage);
      cells[stage.stage][column] = stage.dtype;
    }
  }
  for (const std::string& stage : order) {
    std::vector<std::string> row = {stage};
    for (size_t i = 1; i < table.columns.size(); ++i) row.push_back(cells[stage][table.columns[i]]);
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table compare_table(std::span<const Record> records) {
  Table table{.title =
                  "full against mixed precision: medians; the optimizer is a full step less "
                  "forward and backward; loss error relative to fp32's",
              .columns = {"size", "context", "batch", "mode", "precision", "forward ms",
                          "backward ms", "optimizer ms", "peak MiB", "loss", "loss error"},
              .rows = {},
              .spare = {"batch", "mode", "loss"}};
  for (const PrecisionModelRow& model : precision_model_rows(records))
    table.rows.push_back({word(*model.record, "model_size"), word(*model.record, "context_length"),
                          word(*model.record, "batch_size"), model.record->implementation,
                          word(*model.record, "precision"), cell(model.forward_ms, "{:.3f}"),
                          cell(model.backward_ms, "{:.3f}"), cell(model.optimizer_ms, "{:.3f}"),
                          cell(model.peak_mib, "{:.1f}"), cell(model.loss, "{:.5g}"),
                          cell(model.loss_error, "{:.2e}")});
  return table;
}

std::string conclusion_from(const Rows& rows) {
  const Record* narrow = find_reduction(rows, "repeated", "fp16/fp16");
  const Record* wide = find_reduction(rows, "repeated", "fp16/fp32");
  if (!narrow || !wide) return {};
  return fmt::format(
      "The accumulator matters more than the values: the same fp16 values are {:.3g} times as far "
      "off in an fp16 sum as in an fp32 one",
      std::abs(error_in(*narrow) / error_in(*wide)));
}

// Sentences on 1000 x 0.01.
void about_repeated(const Rows& rows, std::vector<std::string>& notes) {
  const auto sentence = [&](const char* pair) -> std::string {
    const Record* record = find_reduction(rows, "repeated", pair);
    if (record == nullptr) return {};
    return fmt::format(
        "{} values in {} sums give {:.8g} ({}: {} because 0.01 is rounded, {} "
        "because the sum is rounded after every addition)",
        word(*record, "value_dtype"), word(*record, "accumulator_dtype"),
        error_in(*record, "result"), percent(error_in(*record)),
        percent(error_in(*record, "representation_error")),
        percent(error_in(*record, "accumulation_error")));
  };
  for (const char* pair : {"fp32/fp32", "fp16/fp16", "fp16/fp32"})
    if (const std::string text = sentence(pair); !text.empty())
      notes.push_back("1000 x 0.01: " + text);
  if (const std::string conclusion = conclusion_from(rows); !conclusion.empty())
    notes.push_back(conclusion + ", so sums stay in fp32 where values are cast down");
  const Record* stalled = find_reduction(rows, "repeated", "bf16/bf16");
  if (const Number at = stalled ? metric(*stalled, "stalled_at") : std::nullopt)
    notes.push_back(fmt::format(
        "A bf16 sum of bf16 values stops at {:.6g} after {:.0f} of 1000 additions: 0.01 is less "
        "than half the distance to the next bf16 number there, so every further sum rounds back",
        error_in(*stalled, "result"), *at));
}

// For the longest reduction of each op: 16-bit sums beside fp32 sums of the same values.
void about_lengths(const Rows& rows, std::vector<std::string>& notes) {
  for (const char* op : {"sum", "dot", "softmax"}) {
    double longest = 0;
    for (const Record* record : rows)
      if (word(*record, "op") == op)
        longest = std::max(longest, number_in(record->workload, "length").value_or(0));
    std::string text;
    for (const std::string format : {"fp16", "bf16"}) {
      const std::string length = fmt::format("{:.0f}", longest);
      const Record* narrow = find_reduction(rows, op, format + "/" + format, length);
      const Record* wide = find_reduction(rows, op, format + "/fp32", length);
      if (!narrow || !wide) continue;
      text += fmt::format(
          "{}{} values are off by {:.2g} in {} sums and by {:.2g} in fp32 sums, "
          "where representation accounts for {:.2g}",
          text.empty() ? "" : "; ", format, std::abs(error_in(*narrow)), format,
          std::abs(error_in(*wide)), std::abs(error_in(*wide, "representation_error")));
    }
    if (!text.empty()) notes.push_back(fmt::format("{} of length {:.0f}: {}", op, longest, text));
  }
}

void about_norms(const Rows& rows, std::vector<std::string>& notes) {
  // The first overflow, and the growth of bf16's error without overflow.
  for (const Record* record : rows) {
    if (word(*record, "part") != "norm" || text_of(*record->metrics, "overflowed") != "True")
      continue;
    const Record* wide =
        find_reduction(rows, word(*record, "op"), word(*record, "value_dtype") + "/fp32",
                       word(*record, "length"), word(*record, "magnitude"));
    notes.push_back(fmt::format(
        "Why norms stay in fp32, range: {} of {} values of magnitude {} in {} overflows: squares "
        "or "
        "their sum pass the largest finite number, the inverse root becomes 0, and the results' "
        "root mean square is {:.3g} instead of {:.3g}{}",
        word(*record, "op"), word(*record, "length"), word(*record, "magnitude"),
        word(*record, "accumulator_dtype"), error_in(*record, "result"), error_in(*record, "exact"),
        wide ? fmt::format("; in fp32 the same values are off by {:.2g}", error_in(*wide)) : ""));
    break;
  }
  Rows bf16;
  for (const Record* record : rows)
    if (word(*record, "op") == "rms_norm" && record->implementation == "bf16/bf16" &&
        number_in(record->workload, "magnitude") == 1.0)
      bf16.push_back(record);
  if (bf16.size() < 2) return;
  const auto by_length = [](const Record* a, const Record* b) {
    return number_in(a->workload, "length") < number_in(b->workload, "length");
  };
  const auto [shortest, longest] = std::minmax_element(bf16.begin(), bf16.end(), by_length);
  const Record* wide = find_reduction(rows, "rms_norm", "bf16/fp32", word(**longest, "length"),
                                      word(**longest, "magnitude"));
  notes.push_back(fmt::format(
      "Why norms stay in fp32, precision: bf16 has fp32's range, but its sum of squares stops "
      "growing: rms_norm in bf16 is off by {:.2g} at length {} and by {:.2g} at length {}{}",
      error_in(**shortest), word(**shortest, "length"), error_in(**longest),
      word(**longest, "length"),
      wide ? fmt::format("; in fp32 the same bf16 values by {:.2g}, which is their own rounding",
                         error_in(*wide))
           : ""));
}

void about_flow(const Rows& rows, std::vector<std::string>& notes) {
  for (const Record* record : rows) {
    std::map<std::string, std::string> by_dtype;
    for (const StageOfFlow& stage : stages_in(*record)) {
      std::string& names = by_dtype[stage.dtype];
      names += (names.empty() ? "" : ", ") + stage.stage;
    }
    std::string text;
    for (const auto& [dtype, names] : by_dtype)
      text += fmt::format("{}{} in {}", text.empty() ? "" : "; ", names, dtype);
    if (!text.empty())
      notes.push_back(fmt::format("{} under {} autocast: {}", word(*record, "model"),
                                  word(*record, "autocast"), text));
  }
}

}  // namespace

std::string cause_of(const Record& record) {
  const Number representation = metric(record, "representation_error");
  const Number accumulation = metric(record, "accumulation_error");
  if (!representation || !accumulation) return {};
  const double r = std::abs(*representation), a = std::abs(*accumulation);
  if (r == 0 && a == 0) return "none";
  return r >= 2 * a ? "representation" : a >= 2 * r ? "accumulation" : "both";
}

Table precision_csv(std::span<const Record> records) {
  Table table{.title = kStudy,
              .columns = {"part",
                          "op",
                          "value_dtype",
                          "accumulator_dtype",
                          "length",
                          "magnitude",
                          "result",
                          "exact",
                          "total_error",
                          "representation_error",
                          "accumulation_error",
                          "cause",
                          "stalled_at",
                          "overflowed",
                          "model",
                          "autocast",
                          "stage",
                          "tensor",
                          "dtype",
                          "size",
                          "precision",
                          "implementation",
                          "context_length",
                          "batch_size",
                          "forward_ms",
                          "backward_ms",
                          "optimizer_ms",
                          "peak_mb",
                          "loss",
                          "loss_error",
                          "device",
                          "status",
                          "error",
                          "steps",
                          "loss_scale",
                          "skipped_steps",
                          "flushed_tensor",
                          "flushed_share"}};
  std::map<const Record*, PrecisionModelRow> models;
  for (const PrecisionModelRow& model : precision_model_rows(records)) models[model.record] = model;
  std::map<const Record*, TrainingRow> trainings;
  for (const TrainingRow& row : training_rows(records)) trainings[row.record] = row;
  for (const Record* record : rows_of_study(records, kStudy)) {
    std::map<std::string, std::string> cells;
    for (const char* key :
         {"part", "op", "value_dtype", "accumulator_dtype", "length", "magnitude", "model",
          "autocast", "precision", "context_length", "batch_size", "steps"})
      cells[key] = word(*record, key);
    for (const char* name : {"result", "exact", "total_error", "representation_error",
                             "accumulation_error", "stalled_at"})
      cells[name] = cell(metric(*record, name), "{:.10g}");
    if (record->metrics) cells["overflowed"] = text_of(*record->metrics, "overflowed");
    cells["cause"] = cause_of(*record);
    cells["size"] = word(*record, "model_size");
    cells["implementation"] = record->implementation;
    if (const auto model = models.find(record); model != models.end()) {
      const PrecisionModelRow& row = model->second;
      for (const auto& [name, value] : {std::pair{"forward_ms", row.forward_ms},
                                        {"backward_ms", row.backward_ms},
                                        {"optimizer_ms", row.optimizer_ms},
                                        {"peak_mb", row.peak_mib},
                                        {"loss", row.loss},
                                        {"loss_error", row.loss_error}})
        cells[name] = cell(value);
    }
    if (const auto training = trainings.find(record); training != trainings.end()) {
      const TrainingRow& row = training->second;
      if (!row.losses.empty()) cells["loss"] = cell(row.losses.back());
      for (const auto& [name, value] : {std::pair{"loss_error", row.loss_error},
                                        {"loss_scale", row.loss_scale},
                                        {"skipped_steps", row.skipped_steps},
                                        {"flushed_share", row.flushed_share}})
        cells[name] = cell(value);
      cells["flushed_tensor"] = row.flushed_tensor;
    }
    cells["device"] = record->device;
    cells["status"] = status_csv_word(record->status);
    cells["error"] = record->error;
    std::vector<StageOfFlow> stages = stages_in(*record);
    if (stages.empty()) stages.emplace_back();
    for (const StageOfFlow& stage : stages) {
      cells["stage"] = stage.stage;
      cells["tensor"] = stage.tensor;
      cells["dtype"] = stage.dtype;
      std::vector<std::string>& row = table.rows.emplace_back();
      for (const std::string& column : table.columns) row.push_back(cells[column]);
    }
  }
  return table;
}

std::vector<Table> precision_tables(std::span<const Record> records) {
  const Rows errors = reductions(records);
  std::vector<Table> tables = {
      repeated_table(errors),     growth_table(errors, false),
      growth_table(errors, true), flow_table(rows_of_part(records, "flow")),
      compare_table(records),     training_table(records)};
  std::erase_if(tables, [](const Table& table) { return table.rows.empty(); });
  return tables;
}

std::string precision_conclusion(std::span<const Record> records) {
  return conclusion_from(reductions(records));
}

std::vector<std::string> precision_notes(std::span<const Record> records) {
  std::vector<std::string> notes;
  const Rows errors = reductions(records);
  about_repeated(errors, notes);
  about_lengths(errors, notes);
  about_norms(errors, notes);
  about_flow(rows_of_part(records, "flow"), notes);
  for (const std::string& note : precision_model_notes(records)) notes.push_back(note);
  for (const std::string& note : training_notes(records)) notes.push_back(note);
  for (const Record* record : rows_of_study(records, kStudy))
    if (record->status != Status::ok)
      notes.push_back(fmt::format("{} {}: {}: {}", word(*record, "part"), record->implementation,
                                  status_csv_word(record->status), record->error));
  if (rows_of_part(records, "compare").empty() && !notes.empty())
    notes.emplace_back(
        "Times, memory and losses of whole models in both precisions: ridgeline precision --part "
        "compare --model-size small,large");
  return notes;
}

}  // namespace ridgeline
