#include "studies/model/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "report/record_cells.h"
#include "report/terminal/busy_cells.h"
#include "report/terminal/columns.h"
#include "report/terminal/fallback.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

constexpr std::array kScenarioSeries = {"forward", "fwd_bwd", "full_step"};  // the largest last
constexpr std::array kModes = {"vanilla", "compiled"};

using Number = std::optional<double>;

// The records of one model by mode.
struct Modes {
  std::map<std::string, const Record*, std::less<>> records = {};

  // Null if the mode was not run.
  const Record* of(std::string_view mode) const {
    const auto found = records.find(mode);
    return found == records.end() ? nullptr : found->second;
  }
  const Record* vanilla() const { return of(kModes[0]); }
  const Record* compiled() const { return of(kModes[1]); }
  const Record& any() const { return *records.begin()->second; }
};

// In the order in which models first appear; rows of other machines or settings are other rows.
std::vector<Modes> modes_of(const RecordRefs& records) {
  std::vector<Modes> rows;
  for (const Record* record : rows_of_study(records, "model")) {
    const auto same = std::ranges::find_if(rows, [&](const Modes& row) {
      const Record& other = row.any();
      return other.workload == record->workload && other.settings == record->settings &&
             other.device == record->device &&
             other.machine.fingerprint == record->machine.fingerprint;
    });
    (same == rows.end() ? rows.emplace_back() : *same).records[record->implementation] = record;
  }
  return rows;
}

// The modes besides vanilla and compiled, in order of appearance.
std::vector<std::string> other_modes(const RecordRefs& records) {
  std::vector<std::string> names;
  for (const Record* record : rows_of_study(records, "model"))
    if (std::ranges::find(kModes, record->implementation) == kModes.end())
      add_once(names, record->implementation);
  return names;
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

Number speedup(const Modes& row, std::string_view scenario) {
  const Number before = median(row.vanilla(), scenario), after = median(row.compiled(), scenario);
  if (!before || !after || *after <= 0) return std::nullopt;
  return *before / *after;
}

// The same from the GPU's busy times.
Number kernel_speedup(const Modes& row, std::string_view scenario) {
  const Number before = busy_ms(row.vanilla(), scenario), after = busy_ms(row.compiled(), scenario);
  if (!before || !after || *after <= 0) return std::nullopt;
  return *before / *after;
}

// "vanilla, compiled": the modes of these two that are host-bound.
std::string host_bound_modes(const Modes& row, std::string_view scenario) {
  std::string modes;
  for (const char* mode : kModes)
    if (is_host_bound(row.of(mode), scenario))
      modes += (modes.empty() ? "" : ", ") + std::string(mode);
  return modes;
}

// Names host-bound times, and the ratio of the GPU's busy times.
std::string host_bound_sentence(const Modes& row) {
  std::string parts;
  for (const char* scenario : kScenarioSeries) {
    const std::string modes = host_bound_modes(row, scenario);
    if (modes.empty()) continue;
    parts += fmt::format("{}{}: ", parts.empty() ? "" : "; ", scenario);
    std::string busy;
    for (const char* mode : kModes)
      if (const Record* record = row.of(mode); is_host_bound(record, scenario))
        busy +=
            fmt::format("{}{} keeps the GPU busy for {:.3g} of {:.3g} ms", busy.empty() ? "" : ", ",
                        mode, *busy_ms(record, scenario), median(record, scenario).value_or(0));
    parts += busy;
    const Number kernels = kernel_speedup(row, scenario);
    if (const Number wall = speedup(row, scenario); wall && kernels)
      parts +=
          fmt::format(", so {} by the clock measures the host, and the kernels' own ratio is {}",
                      times_text(*wall), times_text(*kernels));
  }
  if (parts.empty()) return {};
  return fmt::format("Host-bound: {}: {}", model_words(row.any()), parts);
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

Column<Modes> mode_column(std::string name, const std::string& mode,
                          std::function<Number(const Record*)> value) {
  return {std::move(name), [=](const Modes& row) { return cell(value(row.of(mode))); }};
}

Column<Modes> median_column(const char* series, const std::string& mode) {
  return mode_column(fmt::format("{}_{}_ms", series, mode), mode,
                     [=](const Record* record) { return median(record, series); });
}

Column<Modes> busy_column(const char* series, const std::string& mode) {
  return mode_column(fmt::format("{}_{}_busy_ms", series, mode), mode,
                     [=](const Record* record) { return busy_ms(record, series); });
}

Column<Modes> loss_scale_column(const char* what, const std::string& mode) {
  return mode_column(fmt::format("{}_{}", what, mode), mode,
                     [=](const Record* record) { return metric(record, "full_step", what); });
}

Column<Modes> status_column(const std::string& mode) {
  return {"status_" + mode, [=](const Modes& row) {
            const Record* record = row.of(mode);
            return std::string(record ? status_csv_word(record->status) : "");
          }};
}

using Ratio = Number (*)(const Modes& row, std::string_view scenario);
Column<Modes> ratio_column(const char* series, const char* what, Ratio ratio) {
  return {fmt::format("{}_{}", series, what),
          [=](const Modes& row) { return cell(ratio(row, series), "{:.4g}"); }};
}

// Mean and standard deviation.
void add_statistics(std::vector<Column<Modes>>& columns, const char* series,
                    const std::string& mode) {
  for (const auto& [what, which] :
       {std::pair("mean", &Statistics::mean_ms), {"std", &Statistics::std_ms}})
    columns.push_back(mode_column(
        fmt::format("{}_{}_{}_ms", series, mode, what), mode,
        [=, which = which](const Record* record) { return statistic_of(record, series, which); }));
}

// What failed or ran otherwise, by mode.
std::string errors_of(const Modes& row, const std::vector<std::string>& modes) {
  std::string errors;
  for (const std::string& mode : modes)
    if (const Record* record = row.of(mode))
      for (const std::string& told : {record->error, ran_eagerly(*record)})
        if (!told.empty())
          errors += fmt::format("{}{}: {}", errors.empty() ? "" : "; ", mode, told);
  return errors;
}

std::function<std::string(const Modes&)> of_workload(const char* key) {
  return [key](const Modes& row) { return text_of(row.any().workload, key); };
}

std::string millions_cell(const Modes& row) {
  return millions(row.any().workload);
}

// A row of the summary.
struct ScenarioRow : Modes {
  const char* scenario;
};

// A time, or why there is none.
std::string time_cell(const Record* record, const char* scenario) {
  if (record == nullptr) return "-";
  const Number ms = median(record, scenario);
  return ms ? cell(ms, "{:.3f}") : std::string(status_csv_word(record->status));
}

std::string ratio_text(Number ratio) {
  return ratio && *ratio > 0 ? times_text(*ratio) : std::string();
}

}  // namespace

std::string model_words(const Record& record) {
  return fmt::format("{} context {} {}", text_of(record.workload, "model_size"),
                     text_of(record.workload, "context_length"),
                     text_of(record.workload, "precision"));
}

Table model_csv(const RecordRefs& records) {
  const std::vector<std::string> others = other_modes(records);
  std::vector<std::string> all(kModes.begin(), kModes.end());
  all.insert(all.end(), others.begin(), others.end());
  std::vector<Column<Modes>> columns = {{"model_size", of_workload("model_size")},
                                        {"context_length", of_workload("context_length")},
                                        {"num_params", of_workload("num_params")},
                                        {"num_params_millions", millions_cell}};
  const auto add = [&](Column<Modes> column) { columns.push_back(std::move(column)); };
  const auto add_times = [&](const char* series) {
    for (const char* mode : kModes) add(median_column(series, mode));
    add(ratio_column(series, "speedup", speedup));
  };
  for (const char* scenario : kScenarioSeries) add_times(scenario);
  for (const ModeColumn& column : kModeColumns)
    for (const char* mode : kModes)
      add(mode_column(fmt::format("{}_{}", column.name, mode), mode, column.value));
  add_times("backward");
  for (const char* series : kModelSeries)
    for (const char* mode : kModes) add_statistics(columns, series, mode);
  add({"compile_seconds", [](const Modes& row) { return cell(compile_seconds(row.compiled())); }});
  add({"precision", of_workload("precision")});
  add({"batch_size", of_workload("batch_size")});
  add({"device", [](const Modes& row) { return row.any().device; }});
  for (const char* mode : kModes) add(status_column(mode));
  add({"error", [&](const Modes& row) { return errors_of(row, all); }});
  for (const char* series : kModelSeries) {
    for (const char* mode : kModes) add(busy_column(series, mode));
    add(ratio_column(series, "kernel_speedup", kernel_speedup));
    add({fmt::format("{}_host_bound", series),
         [=](const Modes& row) { return host_bound_modes(row, series); }});
  }
  for (const char* what : kLossScaleColumns)
    for (const char* mode : kModes) add(loss_scale_column(what, mode));
  for (const std::string& mode : others) {
    for (const char* series : kModelSeries) {
      add(median_column(series, mode));
      add_statistics(columns, series, mode);
      add(busy_column(series, mode));
    }
    for (const ModeColumn& column : kModeColumns)
      add(mode_column(fmt::format("{}_{}", column.name, mode), mode, column.value));
    for (const char* what : kLossScaleColumns) add(loss_scale_column(what, mode));
    add(status_column(mode));
  }
  return table_of("model", columns, modes_of(records));
}

Table model_summary(const RecordRefs& records) {
  using Row = ScenarioRow;
  const std::vector<std::string> others = other_modes(records);
  std::vector<Row> rows;
  for (const Modes& row : modes_of(records))
    for (const char* scenario : kModelSeries)
      if (std::ranges::any_of(row.records, [&](const auto& entry) {
            return was_asked_for(entry.second, scenario);
          }))
        rows.push_back({row, scenario});
  // Figures other than times are compiled's, or those of the next mode that has a time.
  const auto told = [&](const Row& row, const char* name, const char* format, double factor = 1) {
    std::vector<std::string> modes = {"compiled", "vanilla"};
    modes.insert(modes.end(), others.begin(), others.end());
    const auto timed = std::ranges::find_if(modes, [&](const std::string& mode) {
      return median(row.of(mode), row.scenario).has_value();
    });
    return timed == modes.end() ? std::string()
                                : cell(metric(row.of(*timed), row.scenario, name), format, factor);
  };
  const auto told_cell = [&](const char* name, const char* format, double factor = 1) {
    return [=](const Row& row) { return told(row, name, format, factor); };
  };
  // Vanilla and compiled have columns even if they were not run, unless other modes were instead.
  const auto is_shown = [&](std::string_view mode) {
    return others.empty() ||
           std::ranges::any_of(rows, [&](const Row& row) { return row.of(mode); });
  };
  const bool has_speedup = is_shown(kModes[0]) && is_shown(kModes[1]);
  const bool has_busy = tells_busy_time(records, "model");
  const auto time = [&](const std::string& mode, bool shown) {
    return Column<Row>{mode, [=](const Row& row) { return time_cell(row.of(mode), row.scenario); },
                       shown};
  };
  const auto in_run = [&](const std::string& name, const std::string& mode, bool shown) {
    return Column<Row>{"+-% " + name,
                       [=](const Row& row) { return in_run_cell(row.of(mode), row.scenario); },
                       shown};
  };
  const auto busy = [&](const std::string& mode) {
    return Column<Row>{
        "busy " + mode,
        [=](const Row& row) { return cell(busy_ms(row.of(mode), row.scenario), "{:.3f}"); },
        has_busy && is_shown(mode)};
  };
  const auto mib = [&](const std::string& mode) {
    return Column<Row>{"MiB " + mode,
                       [=](const Row& row) {
                         return cell(metric(row.of(mode), row.scenario, "peak_bytes"), "{:.1f}",
                                     0x1p-20);
                       },
                       is_shown(mode)};
  };
  std::vector<Column<Row>> columns = {{"size", of_workload("model_size")},
                                      {"Mparams", millions_cell},
                                      {"context", of_workload("context_length")},
                                      {"batch", of_workload("batch_size")},
                                      {"precision", of_workload("precision")},
                                      {"scenario", [](const Row& row) { return row.scenario; }},
                                      time("vanilla", is_shown("vanilla")),
                                      in_run("v", "vanilla", is_shown("vanilla")),
                                      time("compiled", is_shown("compiled")),
                                      in_run("c", "compiled", is_shown("compiled"))};
  std::vector<std::string> spare = {"compile s", "Mparams", "launches", "ktokens/s", "MFU %"};
  for (const std::string& mode : others) {
    columns.push_back(time(mode, true));
    columns.push_back(in_run(mode, mode, true));
    spare.insert(spare.end(), {"+-% " + mode, "MiB " + mode, "busy " + mode});
  }
  spare.insert(spare.end(), {"MiB vanilla", "batch", "precision", "MiB compiled", "loss scale",
                             "skipped", "busy vanilla", "busy compiled", "speedup kernels",
                             "host-bound", "+-% v", "+-% c"});
  columns.push_back({"speedup",
                     [](const Row& row) { return ratio_text(speedup(row, row.scenario)); },
                     has_speedup});
  for (const char* mode : kModes) columns.push_back(busy(mode));
  for (const std::string& mode : others) columns.push_back(busy(mode));
  const bool scales_loss = std::ranges::any_of(
      rows, [&](const Row& row) { return !told(row, kLossScaleColumns[0], "{:.6g}").empty(); });
  append<Row>(columns,
              {{"speedup kernels",
                [](const Row& row) { return ratio_text(kernel_speedup(row, row.scenario)); },
                has_busy && has_speedup},
               {"host-bound", [](const Row& row) { return host_bound_modes(row, row.scenario); },
                has_busy && (is_shown(kModes[0]) || is_shown(kModes[1]))},
               {"loss scale", told_cell(kLossScaleColumns[0], "{:.6g}"), scales_loss},
               {"skipped", told_cell(kLossScaleColumns[1], "{:.6g}"), scales_loss}});
  for (const char* mode : kModes) columns.push_back(mib(mode));
  for (const std::string& mode : others) columns.push_back(mib(mode));
  append<Row>(columns,
              {{"ktokens/s", told_cell("tokens_per_s", "{:.2f}", 1e-3)},
               {"MFU %", told_cell("mfu", "{:.1f}", 100)},
               {"launches",
                [&](const Row& row) {
                  std::vector<std::string> modes = others;
                  modes.insert(modes.begin(), kModes[0]);
                  modes.emplace_back(kModes[1]);
                  std::string text;
                  for (const std::string& mode : modes)
                    if (const Number launches = metric(row.of(mode), row.scenario, "launches"))
                      text += (text.empty() ? "" : " -> ") + cell(launches, "{:.0f}");
                  return text;
                }},
               {"compile s", [](const Row& row) {
                  return cell(metric(row.compiled(), row.scenario, "compile_seconds"), "{:.2f}");
                }}});
  const bool abbreviates = is_shown("vanilla") || is_shown("compiled");
  return table_of(std::string("model: median milliseconds per step, +-% within-run") +
                      (abbreviates ? " (v vanilla, c compiled)" : ""),
                  columns, rows, spare, {"precision"});
}

std::vector<std::string> model_notes(const RecordRefs& records) {
  std::vector<std::string> notes;
  const auto add = [&](const std::string& note) { add_once(notes, note); };
  const std::vector<const Record*> rows = rows_of_study(records, "model");
  for (const Record* record : rows)
    if (record->status != Status::ok)
      add(fmt::format("{}, {}: {}: {}", model_words(*record), record->implementation,
                      status_csv_word(record->status), record->error));
  for (const Modes& row : modes_of(records)) add(host_bound_sentence(row));
  for (const Record* record : rows) add(loss_scale_sentence(*record));
  for (const std::string& note : model_first_step_notes(records)) add(note);
  add(noise_note(rows));
  for (const Record* record : rows) {
    if (record->series.empty() || !record->metrics || !record->metrics->is_object()) continue;
    const std::string flops = metric_text(*record, "model_flops_are");
    if (!flops.empty() && record->metrics->contains("mfu_is"))
      add(fmt::format("MFU is {}; {}", metric_text(*record, "mfu_is"), flops));
    add(metric_text(*record, "busy_is"));
    add(metric_text(*record, "launches_are"));
    add(metric_text(*record, "seconds_are"));
    if (const std::string fallback = ran_eagerly(*record); !fallback.empty())
      add(fmt::format("{} {}", record->implementation, fallback));
  }
  return notes;
}

}  // namespace ridgeline
