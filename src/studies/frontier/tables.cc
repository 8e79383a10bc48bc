#include "studies/frontier/tables.h"

#include <fmt/format.h>

#include <map>

#include "report/record_columns.h"

namespace ridgeline {
namespace {

// 0 if the row has none.
int64_t whole_metric(const Record& record, const char* key) {
  return record.metrics ? positive_at(*record.metrics, key).value_or(0) : 0;
}

int64_t budget_of(const Record& record) {
  return positive_at(record.settings, "memory_budget_bytes").value_or(0);
}

// "S 8192 fits (run), S 8320 oom (run)".
std::string probes_cell(const RecordRow& row) {
  std::string text;
  const Json* found = row.record->metrics ? row.record->metrics->find_key("probes") : nullptr;
  if (!found || !found->is_array()) return text;
  for (const Json& probe : *found)
    text += fmt::format("{}S {} {} ({})", text.empty() ? "" : ", ", text_of(probe, "seq_len"),
                        text_of(probe, "outcome"), text_of(probe, "method"));
  return text;
}

std::string problem_of(const Record& record) {
  const int64_t budget = budget_of(record);
  return fmt::format("batch {}, {} heads, d_model {}, {}{} on {}{}",
                     text_of(record.workload, "batch_size"), text_of(record.workload, "heads"),
                     text_of(record.workload, "d_model"), text_of(record.workload, "dtype"),
                     text_of(record.workload, "causal") == "True" ? " causal" : "", record.device,
                     budget > 0 ? " within " + to_string(Bytes{budget}) : "");
}

// How much longer a sequence `other` takes than `base`; empty if the two do not tell.
std::string ratio_text(const Record& base, const Record& other) {
  const auto shorter = static_cast<double>(whole_metric(base, "seq_len"));
  const auto longer = static_cast<double>(whole_metric(other, "seq_len"));
  if (&base == &other || shorter <= 0 || longer <= 0 || !is_at_its_end(base)) return {};
  return fmt::format("{} reaches {}{:.3g} times the sequence of {}", other.implementation,
                     is_at_its_end(other) ? "" : "at least ", longer / shorter,
                     base.implementation);
}

}  // namespace

bool is_at_its_end(const Record& record) {
  const int64_t fails = whole_metric(record, "first_oom_seq_len");
  const int64_t step = positive_at(record.settings, "step").value_or(0);
  return fails > 0 && (step == 0 || fails - whole_metric(record, "seq_len") <= step);
}

Table frontier_csv(const RecordRefs& records) {
  return table_of<RecordRow>("frontier",
                             {{"implementation", implementation_cell},
                              {"device", device_cell},
                              {"batch_size", workload_cell("batch_size")},
                              {"heads", workload_cell("heads")},
                              {"d_model", workload_cell("d_model")},
                              {"dtype", workload_cell("dtype")},
                              {"causal", workload_cell("causal")},
                              {"memory_budget_mb",
                               [](const RecordRow& row) {
                                 const int64_t budget = budget_of(*row.record);
                                 return budget > 0 ? cell(Bytes{budget}.mebibytes())
                                                   : std::string();
                               }},
                              {"predicted_seq_len", metric_text_cell("predicted_seq_len")},
                              {"seq_len", metric_text_cell("seq_len")},
                              {"first_oom_seq_len", metric_text_cell("first_oom_seq_len")},
                              {"peak_memory_mb", memory_cell(&MemoryFacts::peak)},
                              {"probes", probes_cell},
                              {"limited_by", metric_text_cell("limited_by")},
                              {"status", status_cell},
                              {"error", error_cell}},
                             record_rows(rows_of_study(records, "frontier")));
}

Table frontier_summary(const RecordRefs& records) {
  return table_of<RecordRow>(
      "the longest sequence that fits, forward and backward",
      {{"implementation", implementation_cell},
       {"batch", workload_cell("batch_size")},
       {"heads", workload_cell("heads")},
       {"d_model", workload_cell("d_model")},
       {"dtype",
        [](const RecordRow& row) {
          const Json& size = row.record->workload;
          return text_of(size, "dtype") + (text_of(size, "causal") == "True" ? " causal" : "");
        }},
       {"budget", [](const RecordRow& row) { return to_string(Bytes{budget_of(*row.record)}); }},
       {"predicted S", metric_text_cell("predicted_seq_len")},
       {"fits S", metric_text_cell("seq_len")},
       {"OOM at S", metric_text_cell("first_oom_seq_len")},
       {"peak",
        [](const RecordRow& row) {
          const std::optional<Bytes>& peak = row.record->memory.peak;
          return peak ? to_string(*peak) : std::string();
        }},
       {"probes", probes_cell},
       {"status", status_cell}},
      record_rows(rows_of_study(records, "frontier")),
      {"probes", "heads", "budget", "predicted S", "peak", "dtype", "d_model"},
      {"heads", "dtype", "d_model"});
}

std::vector<std::string> frontier_notes(const RecordRefs& records) {
  std::vector<std::string> notes;
  std::map<std::string, std::vector<const Record*>> problems;
  for (const Record* record : rows_of_study(records, "frontier"))
    if (record->status == Status::ok) problems[problem_of(*record)].push_back(record);
  for (const auto& [problem, rows] : problems)
    for (const Record* record : rows)
      if (const std::string ratio = ratio_text(*rows.front(), *record); !ratio.empty())
        notes.push_back(fmt::format("{}: {}", problem, ratio));
  for (const Record* row : rows_of_study(records, "frontier")) {
    const Record& record = *row;
    const std::string what = fmt::format("{} at {}", record.implementation, problem_of(record));
    if (record.status != Status::ok) {
      notes.push_back(fmt::format("{}: {}", what, record.error));
      continue;
    }
    const int64_t fits = whole_metric(record, "seq_len");
    const int64_t predicted = whole_metric(record, "predicted_seq_len");
    const int64_t fails = whole_metric(record, "first_oom_seq_len");
    if (fails > 0 && !is_at_its_end(record))
      notes.push_back(fmt::format(
          "{}: the memory model said {}, the limit lies between {} and {}, where the probes ended "
          "(--max-probes)",
          what, predicted, fits, fails));
    else if (fits != predicted && predicted > 0)
      notes.push_back(fmt::format(
          "{}: the memory model said {}, the probes {} ({:+.1f} %)", what, predicted, fits,
          100 * (static_cast<double>(fits) / static_cast<double>(predicted) - 1)));
    if (fails == 0)
      notes.push_back(fmt::format("{}: the search ended at {}, not memory: {}", what, fits,
                                  metric_text(record, "limited_by")));
  }
  return notes;
}

}  // namespace ridgeline
