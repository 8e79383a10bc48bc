#include "report/history_lines.h"

#include <map>

namespace ridgeline {
namespace {

// Compares each point with the previous one, at the confidence level that `ridgeline compare` uses
// for all rows of the two savings.
void judge_points(std::vector<HistoryLine>& lines, const NoiseLookup& noise) {
  const auto both_ok = [](const HistoryPoint& point) {
    return point.before->record.status == Status::ok && point.saved->record.status == Status::ok;
  };
  std::map<std::pair<int64_t, int64_t>, size_t> shared;  // comparisons of two savings
  for (const HistoryLine& line : lines)
    for (const HistoryPoint& point : line.points)
      if (point.before && both_ok(point)) ++shared[{point.before->run.id, point.saved->run.id}];
  for (HistoryLine& line : lines)
    for (HistoryPoint& point : line.points) {
      if (!point.before) continue;
      const Comparison comparison = compare_records(
          {&point.before->record, 1}, {&point.saved->record, 1},
          {.noise = noise, .lines = shared[{point.before->run.id, point.saved->run.id}]});
      for (const RowComparison& row : comparison.rows)
        if (row.phase == line.phase) point.against = row;
    }
}

}  // namespace

std::vector<SavedRecord> saved_rows(std::span<const SavedRecord> records) {
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

std::vector<HistoryLine> history_lines(std::span<const SavedRecord> records,
                                       const NoiseLookup& noise) {
  std::vector<HistoryLine> lines;
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
      HistoryLine& line = lines[found->second];
      const bool has_one_before = !line.points.empty() && series;
      line.points.push_back({&saved, series, has_one_before ? line.points.back().saved : nullptr});
    }
  }
  judge_points(lines, noise);
  return lines;
}

}  // namespace ridgeline
