#include "report/terminal/ladder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "compile/ladder.h"
#include "report/record_cells.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

using Number = std::optional<double>;

constexpr size_t kFewestRungs = 3;

// The rungs of a study from the lowest on, and their timed series.
struct Ladder {
  std::string_view study;
  std::vector<std::string_view> rungs;
  std::string_view beside = {};  // not a rung, but shown below them: the kernel alone
  std::vector<std::string_view> timed;
  bool adds_up = false;                          // the times of all series add up to one figure
  std::vector<const char*> words, numbers = {};  // keys of the workload that make its name
};

std::vector<std::string_view> rungs_of_models() {
  std::vector<std::string_view> names;
  for (const ModeInfo& mode : modes()) names.push_back(mode.name);
  return names;
}

const std::vector<Ladder>& ladders() {
  static const std::vector<Ladder> kLadders = {
      {.study = "attention",
       .rungs = {"naive", "fused", "compiled"},
       .beside = "flash",
       .timed = {"forward", "backward"},
       .adds_up = true,
       .words = {"dtype"},
       .numbers = {"seq_len", "d_model", "batch_size", "heads"}},
      {.study = "model",
       .rungs = rungs_of_models(),
       .timed = {"forward", "backward", "fwd_bwd", "full_step"},
       .words = {"model_size", "precision"},
       .numbers = {"context_length", "batch_size"}},
  };
  return kLadders;
}

std::string name_of(const Record& record, const Ladder& ladder) {
  std::vector<std::string> parts;
  for (const char* key : ladder.words) parts.push_back(text_of(record.workload, key));
  for (const char* key : ladder.numbers)
    parts.push_back(fmt::format("{}={}", key, text_of(record.workload, key)));
  if (text_of(record.workload, "causal") == "True") parts.emplace_back("causal");
  return fmt::format("{}", fmt::join(parts, " "));
}

struct Figures {
  Number launches = {}, ms = {}, half_width = {}, bytes = {};
};

Figures figures_of(const Record& record, const Ladder& ladder, std::string_view timed) {
  if (!ladder.adds_up)
    return {metric_of(record, timed, "launches"), statistic(record, timed, &Statistics::median_ms),
            in_run_percent(record, timed), metric_of(record, timed, "peak_bytes")};
  Figures sum{.launches = metric_number(record, "launches"), .ms = 0};
  if (record.memory.peak) sum.bytes = static_cast<double>(record.memory.peak->count);
  for (std::string_view phase : ladder.timed) {
    const Number ms = statistic(record, phase, &Statistics::median_ms);
    sum.ms = sum.ms && ms ? Number(*sum.ms + *ms) : std::nullopt;
    if (const Number percent = in_run_percent(record, phase))
      sum.half_width = std::max(sum.half_width.value_or(0), *percent);
  }
  return sum;
}

std::string ratio_cell(Number before, Number after) {
  return before && after && *before > 0 && *after > 0 ? times_text(*before / *after)
                                                      : std::string();
}

void add_rows(const std::vector<const Record*>& of_workload, const Ladder& ladder,
              std::string_view timed, Table& table) {
  Figures lowest, before;
  const auto add = [&](std::string_view rung) {
    const auto found = std::ranges::find(of_workload, rung, &Record::implementation);
    if (found == of_workload.end()) return;
    const Record& record = **found;
    const Figures now = figures_of(record, ladder, timed);
    const bool is_rung = rung != ladder.beside;
    std::string name = name_of(record, ladder);
    if (!ladder.adds_up) name += " " + std::string(timed);
    table.rows.push_back(
        {name, std::string(rung), cell(now.launches, "{:.0f}"),
         now.ms ? cell(now.ms, "{:.4g}") : std::string(status_csv_word(record.status)),
         cell(now.half_width, "{:.1f}"), cell(now.bytes, "{:.2f}", 0x1p-20),
         ratio_cell(lowest.ms, now.ms), is_rung ? ratio_cell(before.ms, now.ms) : std::string()});
    if (!ladder.adds_up)
      for (double Statistics::*which : {&Statistics::mean_ms, &Statistics::std_ms})
        table.rows.back().push_back(cell(statistic(record, timed, which), "{:.4g}"));
    if (rung == ladder.rungs.front()) lowest = now;
    if (is_rung && now.ms) before = now;
  };
  for (std::string_view rung : ladder.rungs) add(rung);
  if (!ladder.beside.empty()) add(ladder.beside);
}

}  // namespace

Table ladder_table(const RecordRefs& records, std::string_view study) {
  const auto found = std::ranges::find(ladders(), study, &Ladder::study);
  if (found == ladders().end()) return {};
  const Ladder& ladder = *found;
  Table table{.title = ladder.adds_up ? "the ladder: forward and backward, medians"
                                      : "the ladder: median milliseconds per step, rung by rung",
              .columns = {"workload", "rung", "launches", "ms", "+-%", "peak MiB",
                          fmt::format("over {}", ladder.rungs.front()), "over the rung before"},
              .rows = {},
              .spare = {"+-%", "peak MiB", "launches"}};
  if (!ladder.adds_up) {
    table.columns.insert(table.columns.end(), {"mean ms", "std ms"});
    table.spare.insert(table.spare.begin(), {"mean ms", "std ms"});
  }
  std::vector<std::vector<const Record*>> workloads;
  for (const Record* record : rows_of_study(records, study)) {
    const auto same = std::ranges::find_if(workloads, [&](const auto& rows) {
      return rows.front()->workload == record->workload && rows.front()->device == record->device;
    });
    (same == workloads.end() ? workloads.emplace_back() : *same).push_back(record);
  }
  for (const auto& rows : workloads) {
    const auto is_there = [&](std::string_view rung) {
      return std::ranges::find(rows, rung, &Record::implementation) != rows.end();
    };
    if (std::ranges::count_if(ladder.rungs, is_there) < static_cast<int64_t>(kFewestRungs))
      continue;
    for (std::string_view timed : ladder.timed) {
      // A scenario that was not asked for has no series, though its rows are ok.
      const auto tells = [&](const Record* row) {
        return row->find_series(timed) != nullptr ||
               (timed != "backward" && row->status != Status::ok);
      };
      if (!ladder.adds_up && std::ranges::none_of(rows, tells)) continue;
      add_rows(rows, ladder, timed, table);
      if (ladder.adds_up) break;
    }
  }
  return table;
}

}  // namespace ridgeline
