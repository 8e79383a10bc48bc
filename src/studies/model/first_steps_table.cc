// Tables and sentences about a model's first steps: their time beside later steps, and its causes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/record_cells.h"
#include "studies/model/tables.h"

namespace ridgeline {
namespace {

using Number = std::optional<double>;

// The rows whose first sample is the first step.
std::vector<const Record*> rows_without_warmups(const RecordRefs& records) {
  std::vector<const Record*> rows = rows_of_study(records, "model");
  std::erase_if(rows, [](const Record* record) {
    return record->protocol.warmups > 0 || !record->workload.is_object() ||
           (record->status != Status::ok && record->status != Status::oom);
  });
  return rows;
}

// The costs of the first step of a scenario, or null if the record has none.
const Json* first_step(const Record& record, std::string_view scenario) {
  const Json* of = record.metrics ? record.metrics->find_key(scenario) : nullptr;
  const Json* steps = of != nullptr && of->is_object() ? of->find_key("first_steps") : nullptr;
  if (steps == nullptr || !steps->is_array() || steps->size() == 0) return nullptr;
  const Json& first = *steps->begin();
  return first.is_object() ? &first : nullptr;
}

Number cost(const Record& record, std::string_view scenario, const char* name) {
  const Json* first = first_step(record, scenario);
  return first == nullptr ? std::nullopt : number_in(*first, name);
}

// How much longer the first step of a scenario took than the median; 0: unknown, or not longer.
double extra_ms(const Record& record, const char* scenario) {
  const Series* series = record.find_series(scenario);
  if (series == nullptr || series->samples_ms.size() < 2 || !first_step(record, scenario)) return 0;
  return std::max(0.0, series->samples_ms.front() - series->statistics.median_ms);
}

std::string sentence(const Record& record, const char* scenario) {
  const double extra = extra_ms(record, scenario);
  const double steady = record.find_series(scenario)->statistics.median_ms;
  const auto of = [&](const char* name) { return cost(record, scenario, name).value_or(0); };
  std::string parts;
  const double setup = of("setup_ms"), allocation = of("allocation_ms");
  const std::string beside_others =
      record.disturbance ? disturbance_text(*record.disturbance) : std::string();
  if (setup > 0)
    parts += fmt::format(
        "{:.3g} ms for compiling and loading kernels, choosing algorithms and recording launch "
        "graphs, ",
        setup);
  if (allocation > 0)
    parts += fmt::format("{:.3g} ms for asking for {:.3g} MiB of memory, ", allocation,
                         0x1p-20 * of("allocated_bytes"));
  std::string text = fmt::format(
      "First step: {}, {}: {} takes {:.3g} ms the first time and {:.3g} ms by its median. The "
      "{:.3g} ms more are {}{:.3g} ms for the rest: {:.0f} pages that were touched for the first "
      "time "
      "({:.3g} ms of the system's time, over all threads), cold caches and clocks{}",
      model_words(record), record.implementation, scenario, steady + extra, steady, extra, parts,
      std::max(0.0, extra - setup - allocation), of("page_faults"), of("system_ms"),
      beside_others.empty() ? "" : ", and other work: " + beside_others);
  if (const Number compile = metric_of(record, scenario, "compile_seconds"))
    text += fmt::format(". Tracing, planning and compiling took {:.3g} s before it", *compile);
  return text;
}

}  // namespace

Table model_first_steps(const RecordRefs& records) {
  Table table{.title =
                  "model: milliseconds per step without warm-ups; of the first step: what was "
                  "set up once, memory that was asked for, pages that were touched first",
              .columns = {"size", "context", "batch", "precision", "scenario", "mode", "first",
                          "second", "third", "mean", "std", "median", "first/median", "setup ms",
                          "memory ms", "memory MiB", "page faults"},
              .rows = {},
              .spare = {"batch", "third", "memory MiB"}};
  for (const Record* record : rows_without_warmups(records))
    for (const char* scenario : kModelSeries) {
      const Series* series = record->find_series(scenario);
      if (!series || series->samples_ms.empty()) continue;
      const std::vector<double>& samples = series->samples_ms;
      const Statistics& all = series->statistics;
      std::vector<std::string> row;
      for (const char* key : {"model_size", "context_length", "batch_size", "precision"})
        row.push_back(text_of(record->workload, key));
      row.insert(row.end(), {scenario, record->implementation});
      for (size_t i = 0; i < 3; ++i)
        row.push_back(i < samples.size() ? cell(samples[i], "{:.3f}") : std::string());
      for (const auto which : {&Statistics::mean_ms, &Statistics::std_ms, &Statistics::median_ms})
        row.push_back(
            cell(std::isfinite(all.*which) ? Number(all.*which) : std::nullopt, "{:.3f}"));
      row.push_back(cell(samples.front() / all.median_ms, "{:.2f}x"));
      row.push_back(cell(cost(*record, scenario, "setup_ms"), "{:.3f}"));
      row.push_back(cell(cost(*record, scenario, "allocation_ms"), "{:.3f}"));
      row.push_back(cell(cost(*record, scenario, "allocated_bytes"), "{:.1f}", 0x1p-20));
      row.push_back(cell(cost(*record, scenario, "page_faults"), "{:.0f}"));
      table.rows.push_back(std::move(row));
    }
  return table;
}

std::vector<std::string> model_first_step_notes(const RecordRefs& records) {
  std::vector<std::string> notes;
  for (const Record* record : rows_without_warmups(records)) {
    const char* slowest = std::ranges::max(
        kModelSeries, {}, [&](const char* scenario) { return extra_ms(*record, scenario); });
    if (extra_ms(*record, slowest) > 0) notes.push_back(sentence(*record, slowest));
  }
  return notes;
}

}  // namespace ridgeline
