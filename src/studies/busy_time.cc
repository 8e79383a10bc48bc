#include "studies/busy_time.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "measure/statistics.h"

namespace ridgeline {

void add_busy_times(const std::vector<BusyPhase>& phases, Record& record) {
  constexpr int kEnough = 5;
  constexpr int kMostPasses = 10;
  constexpr double kBudgetS = 1;  // once every phase has a time
  std::vector<std::vector<double>> times(phases.size());
  const auto least = [&] {
    size_t count = kEnough;
    for (const auto& of_phase : times) count = std::min(count, of_phase.size());
    return count;
  };
  const double begin = monotonic_s();
  for (int pass = 0; pass < kMostPasses && least() < kEnough; ++pass) {
    if (least() > 0 && monotonic_s() - begin > kBudgetS) break;
    for (size_t i = 0; i < phases.size(); ++i)
      if (const std::optional<double> ms = phases[i].busy_ms()) times[i].push_back(*ms);
  }
  for (size_t i = 0; i < phases.size(); ++i) {
    const Series* series = record.find_series(phases[i].series);
    if (series == nullptr || times[i].empty()) continue;
    if (!record.metrics) record.metrics = Json::object();
    const double busy_ms = summarize(times[i]).median_ms;
    Json& metrics = (*record.metrics)[phases[i].series];
    metrics["busy_ms"] = busy_ms;
    metrics["host_bound"] = busy_ms < kHostBoundShare * series->statistics.median_ms;
    (*record.metrics)["busy_is"] = fmt::format(
        "busy: the time the GPU needs for the same launches when they are queued before it begins, "
        "so that it never waits for the host; measured apart from the samples. Host-bound: busy "
        "for less than {:.0f} % of the median",
        100 * kHostBoundShare);
  }
}

}  // namespace ridgeline
