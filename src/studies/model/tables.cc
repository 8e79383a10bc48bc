#include "studies/model/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "report/record_cells.h"
#include "report/terminal/busy_cells.h"
#include "report/terminal/fallback.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

constexpr std::array kScenarioSeries = {"forward", "fwd_bwd", "full_step"};  // the largest last
constexpr std::array kModes = {"vanilla", "compiled"};

using Number = std::optional<double>;

// Both modes of one model; null if not among the records.
struct Pair {
  const Record* vanilla = nullptr;
  const Record* compiled = nullptr;

  const Record*& of(std::string_view mode) { return mode == kModes[0] ? vanilla : compiled; }
  const Record* of(std::string_view mode) const { return mode == kModes[0] ? vanilla : compiled; }
  const Record& any() const { return vanilla ? *vanilla : *compiled; }
};

bool is_model(const Record& record) {
  return record.study == "model" && record.workload.is_object() &&
         std::find(kModes.begin(), kModes.end(), record.implementation) != kModes.end();
}

// In the order in which models first appear.
std::vector<Pair> pairs_of(std::span<const Record> records) {
  std::vector<Pair> pairs;
  for (const Record& record : records) {
    if (!is_model(record)) continue;
    const auto same = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& pair) {
      return pair.any().workload == record.workload && pair.any().device == record.device;
    });
    Pair& pair = same == pairs.end() ? pairs.emplace_back() : *same;
    pair.of(record.implementation) = &record;
  }
  return pairs;
}

// Results of scenarios that fit are valid even if a larger one was out of memory.
bool has_results(const Record* record) {
  return record && (record->status == Status::ok || record->status == Status::oom);
}

Number statistic_of(const Record* record, std::string_view name, double Statistics::*which) {
  const Series* series = has_results(record) ? record->find_series(name) : nullptr;
  if (!series || !std::isfinite(series->statistics.*which)) return std::nullopt;
  return series->statistics.*which;
}

Number median(const Record* record, std::string_view name) {
  return statistic_of(record, name, &Statistics::median_ms);
}

std::string in_run_cell(const Record* record, std::string_view name) {
  return cell(median(record, name) ? in_run_percent(*record, name) : std::nullopt, "{:.1f}");
}

Number metric(const Record* record, std::string_view scenario, const char* name) {
  return has_results(record) ? metric_in(record->metrics, scenario, name) : std::nullopt;
}

// The largest scenario that was measured.
std::string_view largest(const Record* record) {
  for (size_t i = kScenarioSeries.size(); i-- > 0;)
    if (median(record, kScenarioSeries[i])) return kScenarioSeries[i];
  return {};
}

Number largest_metric(const Record* record, const char* name) {
  return metric(record, largest(record), name);
}

Number speedup(const Pair& pair, std::string_view scenario) {
  const Number before = median(pair.vanilla, scenario), after = median(pair.compiled, scenario);
  if (!before || !after || *after <= 0) return std::nullopt;
  return *before / *after;
}

std::string speedup_text(const Pair& pair, std::string_view scenario) {
  const Number ratio = speedup(pair, scenario);
  return ratio && *ratio > 0 ? times_text(*ratio) : std::string();
}

// The same from the GPU's busy times.
Number kernel_speedup(const Pair& pair, std::string_view scenario) {
  const Number before = busy_ms(pair.vanilla, scenario), after = busy_ms(pair.compiled, scenario);
  if (!before || !after || *after <= 0) return std::nullopt;
  return *before / *after;
}

// "vanilla, compiled": the modes that are host-bound.
std::string host_bound_modes(const Pair& pair, std::string_view scenario) {
  std::string modes;
  for (const char* mode : kModes)
    if (is_host_bound(pair.of(mode), scenario))
      modes += (modes.empty() ? "" : ", ") + std::string(mode);
  return modes;
}

std::vector<std::string> busy_cells(const Pair& pair, std::string_view scenario) {
  const Number ratio = kernel_speedup(pair, scenario);
  return {cell(busy_ms(pair.vanilla, scenario), "{:.3f}"),
          cell(busy_ms(pair.compiled, scenario), "{:.3f}"),
          ratio && *ratio > 0 ? times_text(*ratio) : std::string(),
          host_bound_modes(pair, scenario)};
}

// Names host-bound times, and the ratio of the GPU's busy times.
std::string host_bound_sentence(const Pair& pair) {
  std::string parts;
  for (const char* scenario : kScenarioSeries) {
    const std::string modes = host_bound_modes(pair, scenario);
    if (modes.empty()) continue;
    parts += fmt::format("{}{}: ", parts.empty() ? "" : "; ", scenario);
    std::string busy;
    for (const char* mode : kModes)
      if (const Record* record = pair.of(mode); is_host_bound(record, scenario))
        busy +=
            fmt::format("{}{} keeps the GPU busy for {:.3g} of {:.3g} ms", busy.empty() ? "" : ", ",
                        mode, *busy_ms(record, scenario), median(record, scenario).value_or(0));
    parts += busy;
    const Number kernels = kernel_speedup(pair, scenario);
    if (const Number wall = speedup(pair, scenario); wall && kernels)
      parts +=
          fmt::format(", so {} by the clock measures the host, and the kernels' own ratio is {}",
                      times_text(*wall), times_text(*kernels));
  }
  if (parts.empty()) return {};
  return fmt::format("Host-bound: {}: {}", model_words(pair.any()), parts);
}

// Whether the scenario of this series was requested.
bool was_asked_for(const Record* record, std::string_view series) {
  if (record == nullptr) return false;
  if (series == "backward" && !record->find_series(series)) return false;  // an older record
  const std::string_view scenario = series == "backward" ? "fwd_bwd" : series;
  std::string names = "," + text_of(record->settings, "scenarios") + ",";
  std::replace(names.begin(), names.end(), '-', '_');
  return names.find(fmt::format(",{},", scenario)) != std::string::npos;
}

std::string millions(const Json& workload) {
  const Json* found = workload.find_key("num_params");
  if (!found || !found->is_number()) return {};
  return fmt::format("{:.2f}", found->get<double>() / 1e6);
}

// Summed over scenarios, because later ones reuse what earlier ones compiled.
Number compile_seconds(const Record* record) {
  Number total;
  for (const char* scenario : kScenarioSeries)
    if (const Number seconds = metric(record, scenario, "compile_seconds"))
      total = total.value_or(0) + *seconds;
  return total;
}

constexpr const char* kLossScaleColumns[] = {"loss_scale", "skipped_steps"};

std::string counted(double steps) {
  return steps == 1 ? "1 step was" : fmt::format("{:.0f} steps were", steps);
}

// The final loss scale, and what fp16 loses without one.
std::string loss_scale_sentence(const Record& record) {
  std::string text;
  const Number scale = metric(&record, "full_step", "loss_scale");
  if (scale)
    text = fmt::format("the loss scale ended at {:.6g}, {} skipped", *scale,
                       counted(metric(&record, "full_step", "skipped_steps").value_or(0)));
  const Json* of = record.metrics ? record.metrics->find_key("fwd_bwd") : nullptr;
  const Json* lost = of != nullptr && of->is_object() ? of->find_key("underflow") : nullptr;
  if (lost != nullptr && lost->is_object()) {
    const double share = number_in(*lost, "share").value_or(0);
    text += text.empty() ? "" : "; ";
    text += share > 0
                ? fmt::format(
                      "of the first gradients {} loses most in fp16: without a scale {:.3g} % "
                      "of it are 0 that are not with a scale of {:.6g}",
                      text_of(*lost, "tensor"), 100 * share, number_in(*lost, "scale").value_or(1))
                : "the first gradients lose nothing in fp16 without a scale";
  }
  if (text.empty()) return {};
  return fmt::format("{}, {}: {}", model_words(record), record.implementation, text);
}

// Figures with one column per mode: <name>_vanilla and <name>_compiled.
struct ModeColumn {
  const char* name;
  Number (*value)(const Record* record);
};
constexpr ModeColumn kModeColumns[] = {
    {"peak_memory_mib",
     [](const Record* r) { return has_results(r) ? mebibytes(r->memory.peak) : std::nullopt; }},
    {"predicted_memory_mib",
     [](const Record* r) { return r ? mebibytes(r->memory.predicted_peak) : std::nullopt; }},
    {"driver_memory_mib",
     [](const Record* r) {
       return has_results(r) ? mebibytes(r->memory.driver_peak_growth) : std::nullopt;
     }},
    {"tokens_per_s", [](const Record* r) { return largest_metric(r, "tokens_per_s"); }},
    {"mfu", [](const Record* r) { return largest_metric(r, "mfu"); }},
    {"launches", [](const Record* r) { return largest_metric(r, "launches"); }},
};

}  // namespace

std::string model_words(const Record& record) {
  return fmt::format("{} context {} {}", text_of(record.workload, "model_size"),
                     text_of(record.workload, "context_length"),
                     text_of(record.workload, "precision"));
}

Table model_csv(std::span<const Record> records) {
  Table table{.title = "model"};
  table.columns = {"model_size", "context_length", "num_params", "num_params_millions"};
  for (const char* scenario : kScenarioSeries)
    for (const char* what : {"vanilla_ms", "compiled_ms", "speedup"})
      table.columns.push_back(fmt::format("{}_{}", scenario, what));
  for (const ModeColumn& column : kModeColumns)
    for (const char* mode : kModes)
      table.columns.push_back(fmt::format("{}_{}", column.name, mode));
  table.columns.insert(table.columns.end(),
                       {"backward_vanilla_ms", "backward_compiled_ms", "backward_speedup"});
  for (const char* series : kModelSeries)
    for (const char* mode : kModes)
      for (const char* what : {"mean", "std"})
        table.columns.push_back(fmt::format("{}_{}_{}_ms", series, mode, what));
  table.columns.insert(table.columns.end(), {"compile_seconds", "precision", "batch_size", "device",
                                             "status_vanilla", "status_compiled", "error"});
  for (const char* scenario : kModelSeries)
    for (const char* what : {"vanilla_busy_ms", "compiled_busy_ms", "kernel_speedup", "host_bound"})
      table.columns.push_back(fmt::format("{}_{}", scenario, what));
  for (const char* what : kLossScaleColumns)
    for (const char* mode : kModes) table.columns.push_back(fmt::format("{}_{}", what, mode));
  for (const Pair& pair : pairs_of(records)) {
    const Json& workload = pair.any().workload;
    std::vector<std::string> row = {text_of(workload, "model_size"),
                                    text_of(workload, "context_length"),
                                    text_of(workload, "num_params"), millions(workload)};
    for (const char* scenario : kScenarioSeries) {
      for (const char* mode : kModes) row.push_back(cell(median(pair.of(mode), scenario)));
      row.push_back(cell(speedup(pair, scenario), "{:.4g}"));
    }
    for (const ModeColumn& column : kModeColumns)
      for (const char* mode : kModes) row.push_back(cell(column.value(pair.of(mode))));
    for (const char* mode : kModes) row.push_back(cell(median(pair.of(mode), "backward")));
    row.push_back(cell(speedup(pair, "backward"), "{:.4g}"));
    for (const char* series : kModelSeries)
      for (const char* mode : kModes)
        for (double Statistics::*which : {&Statistics::mean_ms, &Statistics::std_ms})
          row.push_back(cell(statistic_of(pair.of(mode), series, which)));
    row.push_back(cell(compile_seconds(pair.compiled)));
    row.push_back(text_of(workload, "precision"));
    row.push_back(text_of(workload, "batch_size"));
    row.push_back(pair.any().device);
    std::string errors;
    for (const char* mode : kModes) {
      const Record* record = pair.of(mode);
      row.emplace_back(record ? status_csv_word(record->status) : "");
      if (record == nullptr) continue;
      for (const std::string& told : {record->error, ran_eagerly(*record)})
        if (!told.empty())
          errors += fmt::format("{}{}: {}", errors.empty() ? "" : "; ", mode, told);
    }
    row.push_back(errors);
    for (const char* scenario : kModelSeries) {
      for (const char* mode : kModes) row.push_back(cell(busy_ms(pair.of(mode), scenario)));
      row.push_back(cell(kernel_speedup(pair, scenario), "{:.4g}"));
      row.push_back(host_bound_modes(pair, scenario));
    }
    for (const char* what : kLossScaleColumns)
      for (const char* mode : kModes) row.push_back(cell(metric(pair.of(mode), "full_step", what)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table model_summary(std::span<const Record> records) {
  Table table{
      .title = "model: median milliseconds per step, +-% within-run (v vanilla, c compiled)",
      .columns = {"size", "Mparams", "context", "batch", "precision", "scenario", "vanilla",
                  "+-% v", "compiled", "+-% c", "speedup", "MiB vanilla", "MiB compiled",
                  "ktokens/s", "MFU %", "launches", "compile s"},
      .rows = {},
      .spare = {"compile s", "Mparams", "launches", "ktokens/s", "MFU %", "MiB vanilla", "batch",
                "precision", "MiB compiled"}};
  std::vector<std::vector<std::string>> busy, loss_scales;
  bool scales_loss = false;
  for (const Pair& pair : pairs_of(records)) {
    const Json& workload = pair.any().workload;
    // Figures other than times are compiled's, or vanilla's if compiled has no time.
    for (const char* scenario : kModelSeries) {
      if (!was_asked_for(pair.vanilla, scenario) && !was_asked_for(pair.compiled, scenario))
        continue;
      const auto time = [&](const Record* record) {
        if (record == nullptr) return std::string("-");
        const Number ms = median(record, scenario);
        return ms ? cell(ms, "{:.3f}") : std::string(status_csv_word(record->status));
      };
      const Record* told = median(pair.compiled, scenario) ? pair.compiled : pair.vanilla;
      const auto mib = [&](const Record* record) {
        return cell(metric(record, scenario, "peak_bytes"), "{:.1f}", 0x1p-20);
      };
      std::string launches = cell(metric(pair.vanilla, scenario, "launches"), "{:.0f}");
      if (const Number fused = metric(pair.compiled, scenario, "launches"))
        launches += (launches.empty() ? "" : " -> ") + cell(fused, "{:.0f}");
      table.rows.push_back(
          {text_of(workload, "model_size"), millions(workload), text_of(workload, "context_length"),
           text_of(workload, "batch_size"), text_of(workload, "precision"), scenario,
           time(pair.vanilla), in_run_cell(pair.vanilla, scenario), time(pair.compiled),
           in_run_cell(pair.compiled, scenario), speedup_text(pair, scenario), mib(pair.vanilla),
           mib(pair.compiled), cell(metric(told, scenario, "tokens_per_s"), "{:.2f}", 1e-3),
           cell(metric(told, scenario, "mfu"), "{:.1f}", 100), launches,
           cell(metric(pair.compiled, scenario, "compile_seconds"), "{:.2f}")});
      busy.push_back(busy_cells(pair, scenario));
      std::vector<std::string>& scale = loss_scales.emplace_back();
      for (const char* what : kLossScaleColumns)
        scale.push_back(cell(metric(told, scenario, what), "{:.6g}"));
      scales_loss = scales_loss || !scale[0].empty();
    }
  }
  if (scales_loss) insert_after(table, "speedup", {"loss scale", "skipped"}, loss_scales);
  if (tells_busy_time(records, "model"))
    insert_after(table, "speedup",
                 {"busy vanilla", "busy compiled", "speedup kernels", "host-bound"}, busy);
  return table;
}

std::vector<std::string> model_notes(std::span<const Record> records) {
  std::vector<std::string> notes;
  const auto add = [&](const std::string& note) { add_once(notes, note); };
  for (const Record& record : records)
    if (is_model(record) && record.status != Status::ok)
      add(fmt::format("{}, {}: {}: {}", model_words(record), record.implementation,
                      status_csv_word(record.status), record.error));
  for (const Pair& pair : pairs_of(records)) add(host_bound_sentence(pair));
  for (const Record* record : rows_of_study(records, "model")) add(loss_scale_sentence(*record));
  for (const std::string& note : model_first_step_notes(records)) add(note);
  add(noise_note(rows_of_study(records, "model")));
  for (const Record& record : records) {
    if (!is_model(record) || record.series.empty() || !record.metrics ||
        !record.metrics->is_object())
      continue;
    const std::string flops = text_of(*record.metrics, "model_flops_are");
    if (!flops.empty() && record.metrics->contains("mfu_is"))
      add(fmt::format("MFU is {}; {}", text_of(*record.metrics, "mfu_is"), flops));
    add(text_of(*record.metrics, "busy_is"));
    add(text_of(*record.metrics, "launches_are"));
    add(text_of(*record.metrics, "seconds_are"));
    if (const std::string fallback = ran_eagerly(record); !fallback.empty())
      add("compiled " + fallback);
  }
  return notes;
}

}  // namespace ridgeline
