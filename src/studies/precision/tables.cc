#include "studies/precision/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/record_columns.h"
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

Rows rows_of_part(const RecordRefs& records, std::string_view part) {
  Rows rows = rows_of_study(records, kStudy);
  std::erase_if(rows, [&](const Record* record) { return word(*record, "part") != part; });
  return rows;
}

// Rows that have an error.
Rows reductions(const RecordRefs& records) {
  Rows rows = rows_of_study(records, kStudy);
  std::erase_if(rows, [](const Record* record) {
    return !record->metrics || !record->metrics->contains("overflowed");
  });
  return rows;
}

// NaN if overflow left no number.
double error_in(const Record& record, const char* name = "total_error") {
  return metric_number(record, name).value_or(std::nan(""));
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

// A row of the CSV; what its part does not have is empty.
struct PrecisionRow : RecordRow {
  StageOfFlow stage;
  PrecisionModelRow model;
  TrainingRow training;
};

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

std::string cause_cell(const RecordRow& row) {
  return cause_of(*row.record);
}

// 1000 x 0.01 for every pair of formats.
Table repeated_table(Rows rows) {
  std::erase_if(rows, [](const Record* record) { return word(*record, "op") != "repeated"; });
  return table_of<RecordRow>(
      "1000 x 0.01 = 10, one addition after the other; errors in percent of 10",
      {{"values", workload_cell("value_dtype")},
       {"sum", workload_cell("accumulator_dtype")},
       {"result", number_cell("result", "{:.10g}")},
       {"error", number_cell("total_error", "{:+.3g}", 100)},
       {"representation", number_cell("representation_error", "{:+.3g}", 100)},
       {"accumulation", number_cell("accumulation_error", "{:+.3g}", 100)},
       {"cause", cause_cell},
       {"unchanged after", number_cell("stalled_at", "{:.0f}")}},
      record_rows(rows));
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

Table compare_table(const RecordRefs& records) {
  using Row = PrecisionModelRow;
  const auto of_model = [](const char* key) {
    return [=](const Row& row) { return word(*row.record, key); };
  };
  const auto number = [](Number Row::*which, const char* format) {
    return [=](const Row& row) { return cell(row.*which, format); };
  };
  return table_of<Row>(
      "full against mixed precision: medians; the optimizer is a full step less forward and "
      "backward; loss error relative to fp32's",
      {{"size", of_model("model_size")},
       {"context", of_model("context_length")},
       {"batch", of_model("batch_size")},
       {"mode", [](const Row& row) { return row.record->implementation; }},
       {"precision", of_model("precision")},
       {"forward ms", number(&Row::forward_ms, "{:.3f}")},
       {"backward ms", number(&Row::backward_ms, "{:.3f}")},
       {"optimizer ms", number(&Row::optimizer_ms, "{:.3f}")},
       {"peak MiB", number(&Row::peak_mib, "{:.1f}")},
       {"loss", number(&Row::loss, "{:.5g}")},
       {"loss error", number(&Row::loss_error, "{:.2e}")}},
      precision_model_rows(records), {"batch", "mode", "loss"});
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
  if (const Number at = stalled ? metric_number(*stalled, "stalled_at") : std::nullopt)
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
      "Why norms stay in fp32, precision: bf16 has fp32's range, but its sum of squares is rounded "
      "after every addition: rms_norm in bf16 is off by {:.2g} at length {} and by {:.2g} at "
      "length {}{}",
      error_in(**shortest), word(**shortest, "length"), error_in(**longest),
      word(**longest, "length"),
      wide ? fmt::format("; in fp32 the same bf16 values by {:.2g}{}", error_in(*wide),
                         cause_of(*wide) == "representation" ? ", which is their own rounding" : "")
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
  const Number representation = metric_number(record, "representation_error");
  const Number accumulation = metric_number(record, "accumulation_error");
  if (!representation || !accumulation) return {};
  const double r = std::abs(*representation), a = std::abs(*accumulation);
  if (r == 0 && a == 0) return "none";
  return r >= 2 * a ? "representation" : a >= 2 * r ? "accumulation" : "both";
}

Table precision_csv(const RecordRefs& records) {
  std::map<const Record*, PrecisionModelRow> models;
  for (const PrecisionModelRow& model : precision_model_rows(records)) models[model.record] = model;
  std::map<const Record*, TrainingRow> trainings;
  for (const TrainingRow& row : training_rows(records)) trainings[row.record] = row;
  std::vector<PrecisionRow> rows;
  for (const Record* record : rows_of_study(records, kStudy)) {
    std::vector<StageOfFlow> stages = stages_in(*record);
    if (stages.empty()) stages.emplace_back();
    for (const StageOfFlow& stage : stages)
      rows.push_back({{record}, stage, models[record], trainings[record]});
  }
  using Row = PrecisionRow;
  const auto of_stage = [](std::string StageOfFlow::*which) {
    return [=](const Row& row) { return row.stage.*which; };
  };
  const auto of_model = [](Number PrecisionModelRow::*which) {
    return [=](const Row& row) { return cell(row.model.*which); };
  };
  const auto of_training = [](Number TrainingRow::*which) {
    return [=](const Row& row) { return cell(row.training.*which); };
  };
  std::vector<Column<Row>> columns;
  append(columns, workload_columns(
                      {"part", "op", "value_dtype", "accumulator_dtype", "length", "magnitude"}));
  for (const char* name :
       {"result", "exact", "total_error", "representation_error", "accumulation_error"})
    columns.push_back({name, number_cell(name, "{:.10g}")});
  append<Row>(
      columns,
      {{"cause", cause_cell},
       {"stalled_at", number_cell("stalled_at", "{:.10g}")},
       {"overflowed", metric_text_cell("overflowed")},
       {"model", workload_cell("model")},
       {"autocast", workload_cell("autocast")},
       {"stage", of_stage(&StageOfFlow::stage)},
       {"tensor", of_stage(&StageOfFlow::tensor)},
       {"dtype", of_stage(&StageOfFlow::dtype)},
       {"size", workload_cell("model_size")},
       {"precision", workload_cell("precision")},
       {"implementation", implementation_cell},
       {"context_length", workload_cell("context_length")},
       {"batch_size", workload_cell("batch_size")},
       {"forward_ms", of_model(&PrecisionModelRow::forward_ms)},
       {"backward_ms", of_model(&PrecisionModelRow::backward_ms)},
       {"optimizer_ms", of_model(&PrecisionModelRow::optimizer_ms)},
       {"peak_mb", of_model(&PrecisionModelRow::peak_mib)},
       {"loss",
        [](const Row& row) {
          const std::vector<double>& losses = row.training.losses;
          return cell(losses.empty() ? row.model.loss : losses.back());
        }},
       {"loss_error",
        [](const Row& row) {
          return cell(row.model.loss_error ? row.model.loss_error : row.training.loss_error);
        }},
       {"device", device_cell},
       {"status", status_cell},
       {"error", error_cell},
       {"steps", workload_cell("steps")},
       {"loss_scale", of_training(&TrainingRow::loss_scale)},
       {"skipped_steps", of_training(&TrainingRow::skipped_steps)},
       {"flushed_tensor", [](const Row& row) { return row.training.flushed_tensor; }},
       {"flushed_share", of_training(&TrainingRow::flushed_share)}});
  return table_of(kStudy, columns, rows);
}

std::vector<Table> precision_tables(const RecordRefs& records) {
  const Rows errors = reductions(records);
  std::vector<Table> tables = {
      repeated_table(errors),     growth_table(errors, false),
      growth_table(errors, true), flow_table(rows_of_part(records, "flow")),
      compare_table(records),     training_table(records)};
  std::erase_if(tables, [](const Table& table) { return table.rows.empty(); });
  return tables;
}

std::string precision_conclusion(const RecordRefs& records) {
  return conclusion_from(reductions(records));
}

std::vector<std::string> precision_notes(const RecordRefs& records) {
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
