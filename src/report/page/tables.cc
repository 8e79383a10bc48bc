// The tables of a report: all rows with their commands, the machines, and the unread lines.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "measure/record_values.h"
#include "measure/statistics.h"
#include "report/page/axis.h"
#include "report/page/quiet.h"
#include "report/page/roofline_dots.h"
#include "report/page/sections.h"
#include "report/page/short_paths.h"
#include "report/record_cells.h"

namespace ridgeline {
namespace {

// Keys of the workload that get a column; a study that is not listed gets the first keys found.
struct StudyColumns {
  const char* study;
  std::vector<const char*> keys;
};

const std::vector<StudyColumns>& study_columns() {
  static const std::vector<StudyColumns> table = {
      {"attention", {"batch_size", "heads", "seq_len", "d_model", "dtype", "causal"}},
      {"kernel", {"batch_size", "heads", "seq_len", "head_dim", "dtype", "causal", "mode"}},
      {"gemm", {"op", "m", "n", "k", "dtype", "mode"}},
      {"model", {"model_size", "context_length", "batch_size", "precision"}},
  };
  return table;
}

std::string value_at(const Record& record, const std::string& key) {
  const std::string text = text_at(record.workload, key.c_str());
  return text.empty() ? text_at(record.settings, key.c_str()) : text;
}

std::vector<std::string> columns_of(const std::string& study,
                                    const std::vector<const Record*>& rows) {
  std::vector<std::string> keys;
  for (const StudyColumns& listed : study_columns())
    if (study == listed.study) keys.assign(listed.keys.begin(), listed.keys.end());
  if (!keys.empty()) return keys;
  constexpr size_t kMostColumns = 8;
  for (const Record* record : rows) {
    if (!record->workload.is_object()) continue;
    for (const auto& [key, value] : record->workload.items())
      if (keys.size() < kMostColumns && !std::ranges::count(keys, key)) keys.push_back(key);
  }
  return keys;
}

ReportCell number_cell(std::optional<double> value, const char* format) {
  if (!value || !std::isfinite(*value)) return {};
  return {fmt::format(fmt::runtime(format), *value), *value};
}

// Four significant figures from 1 on, else four decimals.
ReportCell milliseconds_cell(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return {};
  const double size = std::abs(*value);
  const int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
  return {fmt::format("{:.{}f}", *value, decimals), *value};
}

RowDetails details_of(const Record& record, const Series* series) {
  RowDetails details = {{"command", shown(record.command, 2000)}};
  if (series && median_of(record, series->name))
    details.emplace_back(
        "95 % of samples",
        fmt::format("below {}", quantity_text(Quantity::milliseconds, series->statistics.p95_ms)));
  if (!record.error.empty()) details.emplace_back("why", shown(record.error, 1000));
  if (record.verification.checked)
    details.emplace_back(
        "checked",
        shown(record.verification.what + ", against " + record.verification.oracle, 300));
  details.emplace_back("measured", fmt::format("{}, build {}", shown(record.time, 40),
                                               shown(record.build.git_commit, 40)));
  std::string settings;
  if (record.settings.is_object())
    for (const auto& [key, value] : record.settings.items())
      if (settings.size() < 400)
        settings += fmt::format("{}{} {}", settings.empty() ? "" : ", ", shown(key, 40),
                                text_at(record.settings, key.c_str()));
  if (!settings.empty()) details.emplace_back("settings", settings);
  return details;
}

// FLOPs are counted by the convention of the record.
std::optional<double> gflops(const Record& record, const Series& series) {
  const auto cost = cost_of(record, series.name);
  const auto median = median_of(record, series.name);
  if (!cost || cost->flops <= 0 || !median || *median <= 0) return std::nullopt;
  return static_cast<double>(cost->flops) / *median / 1e6;
}

// The rate of a probe: of its fastest sample, which is the roof, or if `of` is "median_" of its
// median sample.
ReportCell probe_cell(const Record& record, const std::string& of) {
  if (record.status != Status::ok || !record.metrics) return {};
  if (const auto rate = number_in(*record.metrics, (of + "gb_per_s").c_str()))
    return {fmt::format("{:.1f} GB/s", *rate), *rate};
  if (const auto rate = number_in(*record.metrics, (of + "gflops_per_s").c_str()))
    return {fmt::format("{:.1f} GFLOP/s", *rate), *rate};
  return {};
}

// The processors that other work used: "0.25 of 2". Empty if the row is undisturbed.
ReportCell beside_cell(const Record& record) {
  if (!is_disturbed(record)) return {};
  const double taken = processors_taken(record);
  return {fmt::format("{:.2g} of {}", taken, record.disturbance->processors), taken};
}

ReportTable rows_table(const ReportContext& context, const std::string& study,
                       const std::vector<const Record*>& rows) {
  ReportTable table{.title = study.empty() ? "other" : study_title(context, study)};
  // Values that all rows share are in the title, not in a column.
  std::vector<std::string> keys;
  std::string shared;
  const auto has_bound = std::ranges::any_of(rows, [&](const Record* record) {
    return std::ranges::any_of(record->series, [&](const Series& series) {
      const RooflineDot* dot = context.dot(*record, series.name);
      return dot != nullptr && dot->bound;
    });
  });
  const bool one_device = std::ranges::all_of(
      rows, [&](const Record* record) { return record->device == rows.front()->device; });
  if (one_device) shared += fmt::format(", {}", shown(rows.front()->device, 20));
  for (const std::string& key : columns_of(study, rows)) {
    const std::string first = value_at(*rows.front(), key);
    if (first == "custom") continue;  // other columns say what it is
    if (std::all_of(rows.begin(), rows.end(),
                    [&](const Record* record) { return value_at(*record, key) == first; }))
      shared += fmt::format(", {} {}", key_words(key), first);
    else
      keys.push_back(key);
  }
  if (!shared.empty()) table.title += fmt::format(" ({})", shared.substr(2));
  table.columns = {"implementation"};
  for (const std::string& key : keys) table.columns.push_back(key_words(key));
  if (!one_device) table.columns.emplace_back("device");
  table.columns.insert(table.columns.end(), {"pass", "median ms", "+-% " + interval_kind(rows),
                                             "GFLOP/s", "peak MiB", "error/tol"});
  if (has_bound) table.columns.emplace_back("bound by");
  const bool has_probes = study == "roofline";
  if (has_probes) table.columns.insert(table.columns.end(), {"fastest sample", "median sample"});
  table.columns.emplace_back("beside other work");
  table.columns.emplace_back("status");
  const auto add = [&](const Record& record, const Series* series) {
    std::vector<ReportCell> row = {{shown(record.implementation, 60), {}}};
    for (const std::string& key : keys) row.push_back(text_cell(value_at(record, key)));
    if (!one_device) row.push_back({shown(record.device, 20), {}});
    row.push_back({series ? phase_words(series->name) : "", {}});
    const auto median = series ? median_of(record, series->name) : std::nullopt;
    row.push_back(milliseconds_cell(median));
    row.push_back(number_cell(
        median ? std::optional(100 * relative_half_width(series->statistics)) : std::nullopt,
        "{:.1f}"));
    row.push_back(number_cell(series ? gflops(record, *series) : std::nullopt, "{:.1f}"));
    row.push_back(number_cell(record.status == Status::ok && record.memory.peak
                                  ? std::optional(record.memory.peak->mebibytes())
                                  : std::nullopt,
                              "{:.2f}"));
    row.push_back(text_cell(cell(worst_error(record), "{:.2g}")));
    if (has_bound) {
      const RooflineDot* dot = series ? context.dot(record, series->name) : nullptr;
      row.push_back({dot ? short_bound(*dot) : "", {}});
    }
    if (has_probes)
      for (const char* of : {"", "median_"}) row.push_back(probe_cell(record, of));
    row.push_back(beside_cell(record));
    row.push_back({std::string(status_csv_word(record.status)), {}});
    table.rows.push_back(std::move(row));
    table.details.push_back(details_of(record, series));
  };
  for (const Record* record : rows) {
    bool shown_once = false;
    for (const Series& series : record->series) {
      // The host time of a call is only in the CSV of the kernel study.
      if (series.name.ends_with("_host")) continue;
      add(*record, &series);
      shown_once = true;
    }
    if (!shown_once) add(*record, nullptr);
  }
  drop_columns(table, [](const std::string& text) { return text.empty(); });
  return table;
}

std::string caches_text(const MachineFacts& machine) {
  std::string text;
  for (const Cache& cache : machine.caches)
    if (cache.type != "Instruction" && text.size() < 200)
      text += fmt::format("{}L{} {}", text.empty() ? "" : ", ", cache.level, to_string(cache.size));
  return text;
}

std::string isa_text(const MachineFacts& machine) {
  std::string text;
  for (const std::string& name : machine.isa)
    if (text.size() < 300) text += (text.empty() ? "" : ", ") + shown(name, 30);
  return text;
}

std::string clock_text(const MachineFacts& machine) {
  std::string text;
  if (machine.max_clock_mhz)
    text =
        fmt::format("{:.0f} MHz ({})", *machine.max_clock_mhz, shown(machine.max_clock_source, 20));
  if (machine.measured_clock_mhz)
    text +=
        fmt::format("{}{:.0f} MHz measured", text.empty() ? "" : ", ", *machine.measured_clock_mhz);
  return text;
}

// The range of a reading of the GPU before and after the samples of all rows.
std::string state_range(const std::vector<const Record*>& rows,
                        std::optional<double> DeviceState::*which, const char* unit) {
  std::optional<double> low, high;
  for (const Record* record : rows)
    for (const auto* state : {&record->device_before, &record->device_after})
      if (*state && (**state).*which) {
        low = std::min(low.value_or(*((**state).*which)), *((**state).*which));
        high = std::max(high.value_or(*((**state).*which)), *((**state).*which));
      }
  if (!low) return {};
  return *low == *high ? fmt::format("{:.0f} {}", *low, unit)
                       : fmt::format("{:.0f} to {:.0f} {}", *low, *high, unit);
}

ReportTable machine_card(const std::vector<const Record*>& rows) {
  const Record& last = *rows.back();
  const MachineFacts& machine = last.machine;
  ReportTable card{
      .title = machine.gpu ? shown(machine.gpu->model, 60) : shown(machine.cpu_model, 80),
      .columns = {"fact", "value"}};
  if (card.title.empty()) card.title = "a machine without facts";
  const auto add = [&](const char* fact, const std::string& value) {
    if (!value.empty()) card.rows.push_back({{fact, {}}, {value, {}}});
  };
  if (machine.gpu) {
    const GpuFacts& gpu = *machine.gpu;
    add("GPU", fmt::format("{}, {}, {} multiprocessors, L2 {}, up to {:.0f} MHz",
                           shown(gpu.model, 60), shown(gpu.arch, 20), gpu.multiprocessors,
                           to_string(gpu.l2), gpu.max_clock_mhz));
    add("GPU software", shown(gpu.software, 300));
    add("GPU clock during runs", state_range(rows, &DeviceState::clock_mhz, "MHz"));
    add("GPU power during runs", state_range(rows, &DeviceState::power_w, "W"));
    add("GPU temperature", state_range(rows, &DeviceState::temperature_c, "C"));
  }
  add("processor", shown(machine.cpu_model, 100));
  add("cores", machine.logical_cores > 0
                   ? fmt::format("{}{}", machine.logical_cores,
                                 machine.cpu_quota_cores
                                     ? fmt::format(", quota {:.3g}", *machine.cpu_quota_cores)
                                     : std::string())
                   : std::string());
  add("instruction sets", isa_text(machine));
  add("caches", caches_text(machine));
  add("clock", clock_text(machine));
  add("governor", machine.governor ? shown(*machine.governor, 40) : std::string());
  if (machine.memory_total.count > 0)
    add("memory", fmt::format("{}, {} available", to_string(machine.memory_total),
                              to_string(machine.memory_available)));
  add("system", shown(fmt::format("{}, kernel {}", machine.os, machine.kernel), 200));
  add("load before", machine.load_average ? fmt::format("{:.2f}", *machine.load_average) : "");
  add("build",
      shown(fmt::format("{} {} {}, {}, commit {}", last.build.version, last.build.build_type,
                        last.build.flags, last.build.compiler, last.build.git_commit),
            200));
  add("fingerprint", shown(machine.fingerprint, 40));
  add("rows", fmt::to_string(rows.size()));
  return card;
}

}  // namespace

ReportSection rows_section(const ReportContext& context) {
  ReportSection section{.id = "rows", .title = "All rows"};
  std::vector<std::string> studies;
  std::map<std::string, std::vector<const Record*>> by_study;
  for (const Record* record : context.rows) {
    if (!by_study.contains(record->study)) studies.push_back(record->study);
    by_study[record->study].push_back(record);
  }
  constexpr size_t kMostTables = 20;
  for (const std::string& study : studies) {
    if (section.tables.size() == kMostTables) {
      const size_t more = studies.size() - kMostTables;
      section.sentences.push_back(more == 1 ? "1 more study is left out."
                                            : fmt::format("{} more studies are left out.", more));
      break;
    }
    section.tables.push_back(rows_table(context, study, by_study[study]));
  }
  section.question = "What was measured, row by row?";
  if (!studies.empty())
    section.answer =
        fmt::format("{} of {}, each with the command that measures it again.",
                    counted(context.rows.size(), "row"),
                    studies.size() == 1 ? "1 study" : fmt::format("{} studies", studies.size()));
  return section;
}

ReportSection machine_section(const ReportContext& context) {
  ReportSection section{.id = "machine", .title = "Machine"};
  std::map<std::string, std::vector<const Record*>> by_machine;
  for (const Record* record : context.rows)
    by_machine[record->machine.fingerprint].push_back(record);
  constexpr size_t kMostMachines = 12;
  for (const auto& [fingerprint, rows] : by_machine) {
    if (section.tables.size() == kMostMachines) break;
    section.tables.push_back(machine_card(rows));
  }
  section.question = "Which machine, and do the figures hold elsewhere?";
  if (!section.tables.empty()) {
    const BuildFacts& build = context.rows.back()->build;
    section.answer =
        shown(fmt::format("{}; ridgeline {} {}, commit {}.", section.tables.front().title,
                          build.version, build.build_type, build.git_commit),
              200);
  }
  if (by_machine.size() == 1)
    section.answer += " Another machine needs a study of its own.";
  else if (by_machine.size() > 1)
    section.sentences.push_back(fmt::format(
        "Rows come from {} machines: compare only rows of one and the same.", by_machine.size()));
  return section;
}

ReportSection problems_section(const ReportContext& context) {
  ReportSection section{.id = "problems", .title = "What was not read"};
  const auto& problems = context.input.problems;
  if (problems.empty()) return section;
  constexpr size_t kMostProblems = 500;
  section.question = "What was not read?";
  section.answer =
      fmt::format("{} could not be read as {}, and nothing above counts them.",
                  counted(problems.size(), "line"), problems.size() == 1 ? "a record" : "records");
  ReportTable table{.title = "Lines", .columns = {"file", "line", "reason"}};
  std::vector<std::string> files;
  for (const ReportProblem& each : problems) files.push_back(each.file);
  files = short_paths(files);
  for (size_t i = 0; i < problems.size(); ++i) {
    const ReportProblem& each = problems[i];
    if (table.rows.size() == kMostProblems) {
      section.sentences.push_back(fmt::format("The first {} are listed.", kMostProblems));
      break;
    }
    table.rows.push_back(
        {{shown(files[i], 200), {}},
         {fmt::to_string(each.problem.line_number), static_cast<double>(each.problem.line_number)},
         {shown(each.problem.reason, 300), {}}});
  }
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace ridgeline
