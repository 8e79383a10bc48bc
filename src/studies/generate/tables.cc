#include "studies/generate/tables.h"

#include <fmt/format.h>

#include "report/record_cells.h"

namespace ridgeline {
namespace {

constexpr double kPercent = 100;

std::vector<const Record*> rows_of_generate(std::span<const Record> records) {
  return rows_of_study(records, "generate");
}

std::string median_cell(const Record& record, const char* series, const char* format = "{:.6g}") {
  return cell(statistic(record, series, &Statistics::median_ms), format);
}

// Records of earlier versions have no batch size: they have one text.
std::string batch_of(const Record& record) {
  const std::string text = text_of(record.workload, "batch_size");
  return text.empty() ? "1" : text;
}

std::vector<std::string> sizes_of(const Record& record) {
  std::vector<std::string> cells;
  for (const char* key : {"model", "weights", "dtype"})
    cells.push_back(text_of(record.workload, key));
  cells.push_back(record.implementation);
  cells.push_back(record.device);
  return cells;
}

}  // namespace

Table generate_csv(std::span<const Record> records) {
  Table table{.title = "generate",
              .columns = {"model",
                          "weights",
                          "dtype",
                          "implementation",
                          "device",
                          "prompt_tokens",
                          "new_tokens",
                          "capacity",
                          "temperature",
                          "top_k",
                          "top_p",
                          "seed",
                          "time_to_first_token_ms",
                          "prefill_ms",
                          "prefill_tokens_per_s",
                          "decode_ms",
                          "decode_tokens_per_s",
                          "bytes_per_token",
                          "gb_per_s",
                          "roof_pct",
                          "predicted_mb",
                          "peak_mb",
                          "stopped_by",
                          "status",
                          "error",
                          "batch_size",
                          "least_decode_ms",
                          "roof_tokens_per_s",
                          "bound",
                          "equal_tokens"}};
  for (const Record* record : rows_of_generate(records)) {
    std::vector<std::string> row = sizes_of(*record);
    row.push_back(text_of(record->workload, "prompt_tokens"));
    row.push_back(metric_text(*record, "new_tokens"));
    for (const char* key : {"capacity", "temperature", "top_k", "top_p"})
      row.push_back(text_of(record->workload, key));
    row.push_back(text_of(record->settings, "seed"));
    row.push_back(median_cell(*record, "first_token"));
    row.push_back(median_cell(*record, "prefill"));
    row.push_back(cell(metric_of(*record, "prefill", "tokens_per_s")));
    row.push_back(median_cell(*record, "decode"));
    for (const char* name : {"tokens_per_s", "bytes_per_token", "gb_per_s"})
      row.push_back(cell(metric_of(*record, "decode", name), "{:.10g}"));
    row.push_back(cell(metric_of(*record, "decode", "roof_share"), "{:.6g}", kPercent));
    row.push_back(cell(mebibytes(record->memory.predicted_peak)));
    row.push_back(cell(mebibytes(record->memory.peak)));
    row.push_back(metric_text(*record, "stopped_by"));
    row.emplace_back(status_csv_word(record->status));
    row.push_back(record->error);
    row.push_back(batch_of(*record));
    row.push_back(cell(metric_of(*record, "decode", "least_ms")));
    row.push_back(cell(metric_of(*record, "decode", "roof_tokens_per_s")));
    row.push_back(metric_word(*record, "decode", "bound"));
    row.push_back(metric_text(*record, "equal_tokens"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table generate_summary(std::span<const Record> records) {
  Table table{
      .title =
          "tokens of the prompt, taken in at once, and new ones, one by one; tokens/s of all texts "
          "together; medians",
      .columns = {"model", "weights", "dtype", "implementation", "device", "batch", "prompt", "new",
                  "first token ms", "prefill tokens/s", "decode tokens/s", "+-%", "GB/s", "roof %",
                  "predicted MiB", "peak MiB", "status"},
      .rows = {},
      .spare = {"device", "weights", "predicted MiB", "+-%", "GB/s", "model"}};
  for (const Record* record : rows_of_generate(records)) {
    std::vector<std::string> row = sizes_of(*record);
    row.push_back(batch_of(*record));
    row.push_back(text_of(record->workload, "prompt_tokens"));
    row.push_back(metric_text(*record, "new_tokens"));
    row.push_back(median_cell(*record, "first_token", "{:.2f}"));
    row.push_back(cell(metric_of(*record, "prefill", "tokens_per_s"), "{:.1f}"));
    row.push_back(cell(metric_of(*record, "decode", "tokens_per_s"), "{:.1f}"));
    row.push_back(cell(in_run_percent(*record, "decode"), "{:.1f}"));
    row.push_back(cell(metric_of(*record, "decode", "gb_per_s"), "{:.2f}"));
    row.push_back(cell(metric_of(*record, "decode", "roof_share"), "{:.1f}", kPercent));
    row.push_back(cell(mebibytes(record->memory.predicted_peak), "{:.1f}"));
    row.push_back(cell(mebibytes(record->memory.peak), "{:.1f}"));
    row.emplace_back(status_csv_word(record->status));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::string> generate_notes(std::span<const Record> records) {
  std::vector<std::string> notes;
  bool has_steps = false, has_roof = false;
  for (const Record* record : rows_of_generate(records)) {
    has_steps = has_steps || metric_of(*record, "decode", "tokens_per_s");
    has_roof = has_roof || metric_of(*record, "decode", "roof_share");
    if (record->status != Status::ok)
      notes.push_back(fmt::format("{}: {}: {}", record->implementation,
                                  status_csv_word(record->status), record->error));
  }
  for (const Record* record : rows_of_generate(records)) {
    const std::string equal = metric_text(*record, "equal_tokens");
    if (equal.empty()) continue;
    const std::string all = metric_text(*record, "new_tokens");
    notes.push_back(
        equal == all
            ? fmt::format("{}, batch {}: all {} tokens are ours", record->implementation,
                          batch_of(*record), all)
            : fmt::format("{}, batch {}: {} of {} tokens are ours up to the first that differs; "
                          "where two logits are closer than the rounding of {}, either is right",
                          record->implementation, batch_of(*record), equal, all,
                          text_of(record->workload, "dtype")));
  }
  if (has_steps)
    notes.emplace_back(
        "GB/s counts what a step must read: every weight once, and the keys and values of the "
        "tokens so far (halfway through the new ones)");
  if (has_roof)
    notes.emplace_back(
        "roof % is the least time of a step by the measured ceilings over its own: the longer of "
        "these bytes at the bandwidth of the level that holds them, of loads alone where they were "
        "measured, and of its products at the peak");
  else if (has_steps)
    notes.emplace_back(
        "no measured ceilings of this device were found: `ridgeline roofline` measures them");
  return notes;
}

}  // namespace ridgeline
