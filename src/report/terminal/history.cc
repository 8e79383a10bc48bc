#include "report/terminal/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/printable.h"
#include "measure/record_text.h"
#include "report/record_cells.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

// One phase of one saved record, beside the one before it.
struct Point {
  const SavedRecord* saved;
  const Series* series;                       // null: the row was not measured
  const SavedRecord* before = nullptr;        // null: this is the first, or not measured
  std::optional<RowComparison> against = {};  // the one before
};

// A row of one machine over time, by phase.
struct Line {
  std::string phase;
  std::vector<Point> points;
};

// The runs of one saving are one row.
std::vector<SavedRecord> rows_of(std::span<const SavedRecord> records) {
  std::vector<SavedRecord> rows;
  for (size_t begin = 0; begin < records.size();) {
    std::vector<Record> saved;
    size_t end = begin;
    for (; end < records.size() && records[end].run.id == records[begin].run.id; ++end)
      saved.push_back(records[end].record);
    for (Record& row : runs_merged(saved)) rows.push_back({records[begin].run, std::move(row)});
    begin = end;
  }
  return rows;
}

// A verdict on two savings is what it would be among all their rows in `ridgeline compare`.
void judge(std::vector<Line>& lines, const NoiseLookup& noise) {
  const auto both_ok = [](const Point& point) {
    return point.before->record.status == Status::ok && point.saved->record.status == Status::ok;
  };
  std::map<std::pair<int64_t, int64_t>, size_t> shared;  // lines of two savings
  for (const Line& line : lines)
    for (const Point& point : line.points)
      if (point.before && both_ok(point)) ++shared[{point.before->run.id, point.saved->run.id}];
  for (Line& line : lines)
    for (Point& point : line.points) {
      if (!point.before) continue;
      const Comparison comparison = compare_records(
          {&point.before->record, 1}, {&point.saved->record, 1},
          {.noise = noise, .lines = shared[{point.before->run.id, point.saved->run.id}]});
      for (const RowComparison& row : comparison.rows)
        if (row.phase == line.phase) point.against = row;
    }
}

// In the order of first sight. Rows of different machines never share a line.
std::vector<Line> lines_of(std::span<const SavedRecord> records, const NoiseLookup& noise) {
  std::vector<Line> lines;
  std::map<std::string, size_t> places;
  for (const SavedRecord& saved : records) {
    const Record& record = saved.record;
    std::vector<const Series*> measured;
    for (const Series& series : record.series)
      if (is_compared(series.name)) measured.push_back(&series);
    if (measured.empty()) measured.push_back(nullptr);
    for (const Series* series : measured) {
      const std::string phase = series ? series->name : "";
      const std::string place = workload_key(record) + record.machine.fingerprint + '\n' + phase;
      const auto [found, is_new] = places.emplace(place, lines.size());
      if (is_new) lines.push_back({.phase = phase, .points = {}});
      Line& line = lines[found->second];
      const bool has_one_before = !line.points.empty() && series;
      line.points.push_back({&saved, series, has_one_before ? line.points.back().saved : nullptr});
    }
  }
  judge(lines, noise);
  return lines;
}

std::string median(const Point& point) {
  const double value = point.series ? point.series->statistics.median_ms : NAN;
  if (point.saved->record.status != Status::ok || !std::isfinite(value))
    return std::string(status_csv_word(point.saved->record.status));
  return fmt::format("{:.4g}", value);
}

std::string half_width(const Point& point) {
  const double width = point.series ? relative_half_width(point.series->statistics) : INFINITY;
  return std::isfinite(width) ? fmt::format("{:.1f}", 100 * width) : "";
}

std::string verdict(const Point& point) {
  if (!point.against || !point.against->verdict) return "";
  return std::string(verdict_name(*point.against->verdict));
}

std::string note(const Point& point) {
  return point.against ? point.against->note : "";
}

std::string speedup(const Point& point) {
  if (!point.against || !point.against->verdict) return "";
  return fmt::format("{:.3f}x", point.against->speedup());
}

// The same for people.
std::string change(const Point& point) {
  if (!point.against || !point.against->verdict) return "";
  return times_text(point.against->speedup(), 3);
}

}  // namespace

std::vector<Table> history_tables(std::span<const SavedRecord> records, const NoiseLookup& noise) {
  std::vector<Table> tables;
  const std::vector<SavedRecord> saved_rows = rows_of(records);
  for (const Line& line : lines_of(saved_rows, noise)) {
    const Record& first = line.points.front().saved->record;
    std::vector<const Record*> rows;
    for (const Point& point : line.points) rows.push_back(&point.saved->record);
    Table table{.title = fmt::format("{}{}{}", row_text(first), line.phase.empty() ? "" : ": ",
                                     printable(line.phase, 40)),
                .columns = {"time", "commit", "baseline", "median ms", "+-% " + interval_kind(rows),
                            "speedup", "verdict"},
                .rows = {},
                .spare = {"+-% " + interval_kind(rows), "baseline"}};
    const bool has_notes = std::any_of(line.points.begin(), line.points.end(),
                                       [](const Point& point) { return !note(point).empty(); });
    if (has_notes) table.columns.emplace_back("note");
    for (const Point& point : line.points) {
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
  const std::vector<SavedRecord> saved_rows = rows_of(records);
  for (const Line& line : lines_of(saved_rows, noise))
    for (const Point& point : line.points) {
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
              .columns = {"name", "saved at", "commit", "rows"}};
  for (const SavedRun& run : runs)
    table.rows.push_back(
        {run.name, run.saved_at, printable(run.git_commit, 40), std::to_string(run.rows)});
  return table;
}

}  // namespace ridgeline
