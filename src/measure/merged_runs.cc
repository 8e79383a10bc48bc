#include "measure/merged_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/sort_by.h"

namespace ridgeline {
namespace {

using Runs = std::vector<const Record*>;

// Ordered by the first run of each row.
std::vector<Runs> runs_by_row(std::span<const Record> records) {
  std::vector<Runs> rows;
  std::map<std::string, size_t> places;
  for (const Record& record : records) {
    const std::string key = workload_key(record);
    const auto place = places.find(key);
    // A record that is not the next run of the same --runs begins a row, as do merged runs (0).
    if (place == places.end() || record.run < 2 ||
        record.run != rows[place->second].back()->run + 1) {
      places[key] = rows.size();
      rows.push_back({&record});
    } else {
      rows[place->second].push_back(&record);
    }
  }
  return rows;
}

std::optional<ProcessorSpeed> median_speed(const Runs& runs) {
  std::vector<ProcessorSpeed> speeds;
  for (const Record* run : runs)
    if (const auto speed = speed_beside(*run)) speeds.push_back(*speed);
  if (speeds.empty()) return std::nullopt;
  return median_rates(speeds);
}

// Does nothing if fewer than kFewestRuns would remain.
void leave_out(Runs& runs, const std::function<bool(const Record*)>& is_unusual) {
  const auto unusual = std::count_if(runs.begin(), runs.end(), is_unusual);
  if (std::ssize(runs) - unusual >= kFewestRuns) std::erase_if(runs, is_unusual);
}

// Disturbed runs first, because other work lowers their measured speed.
void leave_out_unusual(Runs& runs) {
  leave_out(runs, [](const Record* run) { return !is_quiet(*run); });
  const std::optional<ProcessorSpeed> usual = median_speed(runs);
  leave_out(runs, [&](const Record* run) {
    const auto speed = speed_beside(*run);
    return usual && (!speed || speed_gap(*usual, *speed).is_apart());
  });
}

// The run that a row with failed runs shows: the first of the worst. Null if all runs are ok.
const Record* worst_failure(const Runs& runs) {
  for (const Status status :
       {Status::wrong, Status::invalid, Status::oom, Status::unsupported, Status::skipped})
    if (const auto found = std::ranges::find(runs, status, &Record::status); found != runs.end())
      return *found;
  return nullptr;
}

Record failed_row(const Runs& runs, const Record& failure) {
  Record row = failure;
  const auto alike = std::ranges::count(runs, failure.status, &Record::status);
  if (alike < std::ssize(runs))
    row.error = fmt::format("in {} of {} runs{}{}", alike, runs.size(),
                            failure.error.empty() ? "" : ": ", failure.error);
  return row;
}

// Metrics, memory and errors cannot be merged: those of the run with the middle time go with it.
const Record& middle_run(Runs runs) {
  sort_by(runs, [](const Record* run) {
    const double ms = run->series.empty() ? 0 : run->series.front().statistics.median_ms;
    return std::isfinite(ms) ? ms : INFINITY;
  });
  return *runs[(runs.size() - 1) / 2];
}

Record merged_row(const Runs& runs) {
  Record merged = middle_run(runs);
  merged.merged_runs = static_cast<int>(runs.size());
  // The disturbance of the first disturbed run, if any.
  const auto disturbed =
      std::find_if_not(runs.begin(), runs.end(), [](const Record* run) { return is_quiet(*run); });
  merged.disturbance = (disturbed == runs.end() ? runs.back() : *disturbed)->disturbance;
  merged.speed_before.reset();
  merged.speed_after = median_speed(runs);
  for (Series& series : merged.series) {
    series.samples_ms.clear();
    for (const Record* run : runs)  // files may hold null for a median
      if (const Series* one = run->find_series(series.name);
          one && std::isfinite(one->statistics.median_ms))
        series.samples_ms.push_back(one->statistics.median_ms);
    series.statistics = series.samples_ms.empty() ? Statistics() : summarize(series.samples_ms);
  }
  return merged;
}

}  // namespace

bool is_quiet(const Record& record) {
  return record.disturbance && record.disturbance->quiet();
}

std::optional<ProcessorSpeed> speed_beside(const Record& record) {
  if (!record.speed_before || !record.speed_after) return record.speed_after;
  return slower_rates(*record.speed_before, *record.speed_after);
}

std::vector<Record> runs_merged(std::span<const Record> records) {
  std::vector<Record> out;
  for (Runs& runs : runs_by_row(records)) {
    if (runs.size() == 1) {
      out.push_back(*runs.front());
      continue;
    }
    const Record* failure = worst_failure(runs);
    if (!failure) leave_out_unusual(runs);
    out.push_back(failure ? failed_row(runs, *failure) : merged_row(runs));
    out.back().run = 0;
  }
  return out;
}

}  // namespace ridgeline
