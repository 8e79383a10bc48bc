#include "report/terminal/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "measure/record_text.h"
#include "report/history_lines.h"
#include "report/record_cells.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

std::string median(const HistoryPoint& point) {
  const double value = point.series ? point.series->statistics.median_ms : NAN;
  if (point.saved->record.status != Status::ok || !std::isfinite(value))
    return std::string(status_csv_word(point.saved->record.status));
  return fmt::format("{:.4g}", value);
}

std::string half_width(const HistoryPoint& point) {
  const double width = point.series ? relative_half_width(point.series->statistics) : INFINITY;
  return std::isfinite(width) ? fmt::format("{:.1f}", 100 * width) : "";
}

std::string verdict(const HistoryPoint& point) {
  if (!point.against || !point.against->verdict) return "";
  return std::string(verdict_name(*point.against->verdict));
}

std::string note(const HistoryPoint& point) {
  return point.against ? point.against->note : "";
}

std::string speedup(const HistoryPoint& point) {
  if (!point.against || !point.against->verdict) return "";
  return fmt::format("{:.3f}x", point.against->speedup());
}

// The speedup in words: "1.250x", "3.170x slower".
std::string change(const HistoryPoint& point) {
  if (!point.against || !point.against->verdict) return "";
  return times_text(point.against->speedup(), 3);
}

}  // namespace

std::vector<Table> history_tables(std::span<const SavedRecord> records, const NoiseLookup& noise) {
  std::vector<Table> tables;
  const std::vector<SavedRecord> saved = saved_rows(records);
  for (const HistoryLine& line : history_lines(saved, noise)) {
    const Record& first = line.points.front().saved->record;
    std::vector<const Record*> rows;
    for (const HistoryPoint& point : line.points) rows.push_back(&point.saved->record);
    Table table{.title = fmt::format("{}{}{}", row_text(first), line.phase.empty() ? "" : ": ",
                                     printable(line.phase, 40)),
                .columns = {"time", "commit", "baseline", "median ms", "+-% " + interval_kind(rows),
                            "speedup", "verdict"},
                .rows = {},
                .spare = {"+-% " + interval_kind(rows), "baseline"}};
    const bool has_notes =
        std::any_of(line.points.begin(), line.points.end(),
                    [](const HistoryPoint& point) { return !note(point).empty(); });
    if (has_notes) table.columns.emplace_back("note");
    for (const HistoryPoint& point : line.points) {
      table.rows.push_back({printable(point.saved->record.time, 40),
                            printable(point.saved->record.build.git_commit, 40),
                            point.saved->run.name, median(point), half_width(point), change(point),
                            verdict(point)});
      if (has_notes) table.rows.back().push_back(note(point));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

Table history_csv(std::span<const SavedRecord> records, const NoiseLookup& noise) {
  Table table{.columns = {"row", "phase", "machine", "time", "saved_at", "commit", "baseline",
                          "median_ms", "status", "speedup_to_previous", "verdict", "note"}};
  const std::vector<SavedRecord> saved = saved_rows(records);
  for (const HistoryLine& line : history_lines(saved, noise))
    for (const HistoryPoint& point : line.points) {
      const Record& record = point.saved->record;
      table.rows.push_back({row_text(record), printable(line.phase, 40),
                            printable(record.machine.fingerprint, 40), printable(record.time, 40),
                            point.saved->run.saved_at, printable(record.build.git_commit, 40),
                            point.saved->run.name,
                            record.status == Status::ok ? median(point) : std::string(),
                            std::string(status_csv_word(record.status)), speedup(point),
                            verdict(point), note(point)});
    }
  return table;
}

Table baselines_table(std::span<const SavedRun> runs) {
  Table table{.title = "baselines; the newest of a name is what it stands for",
              .columns = {"name", "saved at", "commit", "records"}};
  for (const SavedRun& run : runs)
    table.rows.push_back(
        {run.name, run.saved_at, printable(run.git_commit, 40), std::to_string(run.rows)});
  return table;
}

}  // namespace ridgeline
