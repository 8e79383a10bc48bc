#include "studies/generate/tables.h"

#include <fmt/format.h>

#include "report/record_columns.h"

namespace ridgeline {
namespace {

constexpr double kPercent = 100;

constexpr const char* kDecode = "decode";  // the series of most columns

// Records of earlier versions have no batch size: they have one text.
std::string batch_of(const Record& record) {
  const std::string text = text_of(record.workload, "batch_size");
  return text.empty() ? "1" : text;
}

std::string batch_cell(const RecordRow& row) {
  return batch_of(*row.record);
}

RecordCell prefill_rate_cell(const char* format) {
  return [=](const RecordRow& row) {
    return cell(metric_of(*row.record, "prefill", "tokens_per_s"), format);
  };
}

}  // namespace

Table generate_csv(const RecordRefs& records) {
  return table_of<RecordRow>("generate",
                             {{"model", workload_cell("model")},
                              {"weights", workload_cell("weights")},
                              {"dtype", workload_cell("dtype")},
                              {"implementation", implementation_cell},
                              {"device", device_cell},
                              {"prompt_tokens", workload_cell("prompt_tokens")},
                              {"new_tokens", metric_text_cell("new_tokens")},
                              {"capacity", workload_cell("capacity")},
                              {"temperature", workload_cell("temperature")},
                              {"top_k", workload_cell("top_k")},
                              {"top_p", workload_cell("top_p")},
                              {"seed", setting_cell("seed")},
                              {"time_to_first_token_ms", median_cell("first_token")},
                              {"prefill_ms", median_cell("prefill")},
                              {"prefill_tokens_per_s", prefill_rate_cell("{:.6g}")},
                              {"decode_ms", median_cell(kDecode)},
                              {"decode_tokens_per_s", metric_cell("tokens_per_s", "{:.10g}")},
                              {"bytes_per_token", metric_cell("bytes_per_token", "{:.10g}")},
                              {"gb_per_s", metric_cell("gb_per_s", "{:.10g}")},
                              {"roof_pct", metric_cell("roof_share", "{:.6g}", kPercent)},
                              {"predicted_mb", memory_cell(&MemoryFacts::predicted_peak)},
                              {"peak_mb", memory_cell(&MemoryFacts::peak)},
                              {"stopped_by", metric_text_cell("stopped_by")},
                              {"status", status_cell},
                              {"error", error_cell},
                              {"batch_size", batch_cell},
                              {"least_decode_ms", metric_cell("least_ms")},
                              {"roof_tokens_per_s", metric_cell("roof_tokens_per_s")},
                              {"bound", word_cell("bound")},
                              {"equal_tokens", metric_text_cell("equal_tokens")}},
                             record_rows(rows_of_study(records, "generate"), kDecode));
}

Table generate_summary(const RecordRefs& records) {
  return table_of<RecordRow>(
      "tokens of the prompt, taken in at once, and new ones, one by one; tokens/s of all texts "
      "together; medians",
      {{"model", workload_cell("model")},
       {"weights", workload_cell("weights")},
       {"dtype", workload_cell("dtype")},
       {"implementation", implementation_cell},
       {"device", device_cell},
       {"batch", batch_cell},
       {"prompt", workload_cell("prompt_tokens")},
       {"new", metric_text_cell("new_tokens")},
       {"first token ms", median_cell("first_token", "{:.2f}")},
       {"prefill tokens/s", prefill_rate_cell("{:.1f}")},
       {"decode tokens/s", metric_cell("tokens_per_s", "{:.1f}")},
       {"+-%", in_run_cell},
       {"GB/s", metric_cell("gb_per_s", "{:.2f}")},
       {"roof %", metric_cell("roof_share", "{:.1f}", kPercent)},
       {"predicted MiB", memory_cell(&MemoryFacts::predicted_peak, "{:.1f}")},
       {"peak MiB", memory_cell(&MemoryFacts::peak, "{:.1f}")},
       {"status", status_cell}},
      record_rows(rows_of_study(records, "generate"), kDecode),
      {"device", "weights", "predicted MiB", "+-%", "GB/s", "model"});
}

std::vector<std::string> generate_notes(const RecordRefs& records) {
  std::vector<std::string> notes;
  bool has_steps = false, has_roof = false;
  for (const Record* record : rows_of_study(records, "generate")) {
    has_steps = has_steps || metric_of(*record, "decode", "tokens_per_s");
    has_roof = has_roof || metric_of(*record, "decode", "roof_share");
    if (record->status != Status::ok)
      notes.push_back(fmt::format("{}: {}: {}", record->implementation,
                                  status_csv_word(record->status), record->error));
  }
  for (const Record* record : rows_of_study(records, "generate")) {
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
