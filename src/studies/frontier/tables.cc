#include "studies/frontier/tables.h"

#include <fmt/format.h>

#include <map>

#include "report/record_cells.h"

namespace ridgeline {
namespace {

int64_t whole_at(const Json& object, const char* key) {
  return positive_at(object, key).value_or(0);
}

Json metrics_of(const Record& record) {
  return record.metrics.value_or(Json::object());
}

// "S 8192 fits (run), S 8320 oom (run)".
std::string probes_of(const Json& metrics) {
  std::string text;
  const Json* found = metrics.find_key("probes");
  if (!found || !found->is_array()) return text;
  for (const Json& probe : *found)
    text += fmt::format("{}S {} {} ({})", text.empty() ? "" : ", ", text_of(probe, "seq_len"),
                        text_of(probe, "outcome"), text_of(probe, "method"));
  return text;
}

constexpr const char* kSizes[] = {"batch_size", "heads", "d_model", "dtype", "causal"};

std::string problem_of(const Record& record) {
  const int64_t budget = whole_at(record.settings, "memory_budget_bytes");
  return fmt::format("batch {}, {} heads, d_model {}, {}{} on {}{}",
                     text_of(record.workload, "batch_size"), text_of(record.workload, "heads"),
                     text_of(record.workload, "d_model"), text_of(record.workload, "dtype"),
                     text_of(record.workload, "causal") == "True" ? " causal" : "", record.device,
                     budget > 0 ? " within " + to_string(Bytes{budget}) : "");
}

// Whether a longer sequence was seen not to fit.
bool is_limited_by_memory(const Record& record) {
  return metrics_of(record).contains("first_oom_seq_len");
}

// How much longer a sequence `other` takes than `base`; empty if the two do not tell.
std::string ratio_text(const Record& base, const Record& other) {
  const auto shorter = static_cast<double>(whole_at(metrics_of(base), "seq_len"));
  const auto longer = static_cast<double>(whole_at(metrics_of(other), "seq_len"));
  if (&base == &other || shorter <= 0 || longer <= 0 || !is_limited_by_memory(base)) return {};
  return fmt::format("{} reaches {}{:.3g} times the sequence of {}", other.implementation,
                     is_limited_by_memory(other) ? "" : "at least ", longer / shorter,
                     base.implementation);
}

}  // namespace

Table frontier_csv(std::span<const Record> records) {
  Table table{.title = "frontier", .columns = {"implementation", "device"}};
  table.columns.insert(table.columns.end(), std::begin(kSizes), std::end(kSizes));
  table.columns.insert(table.columns.end(),
                       {"memory_budget_mb", "predicted_seq_len", "seq_len", "first_oom_seq_len",
                        "peak_memory_mb", "probes", "limited_by", "status", "error"});
  for (const Record& record : records) {
    if (record.study != "frontier") continue;
    const Json metrics = metrics_of(record);
    std::vector<std::string> row = {record.implementation, record.device};
    for (const char* key : kSizes) row.push_back(text_of(record.workload, key));
    const int64_t budget = whole_at(record.settings, "memory_budget_bytes");
    row.push_back(budget > 0 ? cell(mebibytes(Bytes{budget}), "{:.1f}") : std::string());
    for (const char* key : {"predicted_seq_len", "seq_len", "first_oom_seq_len"})
      row.push_back(text_of(metrics, key));
    row.push_back(cell(mebibytes(record.memory.peak), "{:.1f}"));
    row.push_back(probes_of(metrics));
    row.push_back(text_of(metrics, "limited_by"));
    row.emplace_back(status_csv_word(record.status));
    row.push_back(record.error);
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table frontier_summary(std::span<const Record> records) {
  Table table{.title = "the longest sequence that fits, forward and backward",
              .columns = {"implementation", "batch", "heads", "d_model", "dtype", "budget",
                          "predicted S", "fits S", "OOM at S", "peak", "probes", "status"},
              .rows = {},
              .spare = {"probes", "heads", "budget", "predicted S", "peak", "dtype", "d_model"}};
  for (const Record& record : records) {
    if (record.study != "frontier") continue;
    const Json metrics = metrics_of(record);
    const Json& size = record.workload;
    table.rows.push_back(
        {record.implementation, text_of(size, "batch_size"), text_of(size, "heads"),
         text_of(size, "d_model"),
         text_of(size, "dtype") + (text_of(size, "causal") == "True" ? " causal" : ""),
         to_string(Bytes{whole_at(record.settings, "memory_budget_bytes")}),
         text_of(metrics, "predicted_seq_len"), text_of(metrics, "seq_len"),
         text_of(metrics, "first_oom_seq_len"),
         record.memory.peak ? to_string(*record.memory.peak) : std::string(), probes_of(metrics),
         std::string(status_csv_word(record.status))});
  }
  return table;
}

std::vector<std::string> frontier_notes(std::span<const Record> records) {
  std::vector<std::string> notes;
  std::map<std::string, std::vector<const Record*>> problems;
  for (const Record& record : records)
    if (record.study == "frontier" && record.status == Status::ok)
      problems[problem_of(record)].push_back(&record);
  for (const auto& [problem, rows] : problems)
    for (const Record* record : rows)
      if (const std::string ratio = ratio_text(*rows.front(), *record); !ratio.empty())
        notes.push_back(fmt::format("{}: {}", problem, ratio));
  for (const Record& record : records) {
    if (record.study != "frontier") continue;
    const std::string what = fmt::format("{} at {}", record.implementation, problem_of(record));
    if (record.status != Status::ok) {
      notes.push_back(fmt::format("{}: {}", what, record.error));
      continue;
    }
    const Json metrics = metrics_of(record);
    const int64_t fits = whole_at(metrics, "seq_len");
    const int64_t predicted = whole_at(metrics, "predicted_seq_len");
    if (fits != predicted && predicted > 0)
      notes.push_back(fmt::format(
          "{}: the memory model said {}, the probes {} ({:+.1f} %)", what, predicted, fits,
          100 * (static_cast<double>(fits) / static_cast<double>(predicted) - 1)));
    if (!is_limited_by_memory(record))
      notes.push_back(fmt::format("{}: {} is no limit of memory, but {}", what, fits,
                                  text_of(metrics, "limited_by")));
  }
  return notes;
}

}  // namespace ridgeline
