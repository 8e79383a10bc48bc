#include "measure/noise.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "measure/quantiles.h"
#include "measure/rank_interval.h"
#include "measure/record_text.h"

namespace ridgeline {
namespace {

constexpr double kPairs = 0.99;       // share of pairs of runs that the floor covers
constexpr double kConfidence = 0.95;  // of the bound on the standard deviation
constexpr double kLeast = 0.001;      // the resolution of clocks and rounded times

struct Seen {
  const Record* record = nullptr;
  std::vector<double> log_medians = {};
};

double floor_of(const std::vector<double>& figures) {
  const double deviation =
      std::sqrt(squared_deviations(figures) /
                chi_square_quantile(1 - kConfidence, static_cast<int>(figures.size()) - 1));
  constexpr int kMany = 100'000;  // degrees at which Student's t is the normal distribution
  const double two_runs = student_t_quantile((1 + kPairs) / 2, kMany) * std::sqrt(2.0) * deviation;
  return std::max(kLeast, std::expm1(two_runs));
}

}  // namespace

std::vector<MeasuredNoise> measured_noise(std::span<const std::vector<Record>> runs) {
  std::map<std::pair<std::string, std::string>, Seen> seen;
  for (const std::vector<Record>& records : runs)
    for (const Record& record : records)
      for (const Series& series : record.series) {
        const double median = series.statistics.median_ms;
        if (!is_compared(series.name) || record.status != Status::ok || !(median > 0)) continue;
        Seen& entry = seen[{workload_key(record), series.name}];
        entry.record = &record;
        entry.log_medians.push_back(std::log(median));
      }
  std::vector<MeasuredNoise> out;
  for (const auto& [place, entry] : seen)
    if (std::ssize(entry.log_medians) >= kFewestFloorRuns)
      out.push_back({.fingerprint = entry.record->machine.fingerprint,
                     .device = entry.record->device,
                     .implementation = entry.record->implementation,
                     .row_key = place.first,
                     .phase = place.second,
                     .row = row_text(*entry.record),
                     .fraction = floor_of(entry.log_medians),
                     .runs = static_cast<int>(entry.log_medians.size())});
  return out;
}

}  // namespace ridgeline
