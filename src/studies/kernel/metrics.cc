#include "studies/kernel/metrics.h"

#include <fmt/format.h>

#include <array>

#include "studies/device_facts.h"
#include "studies/device_modes.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr const char* kConventions =
    "gflops_per_s counts 4 B H S S d forward, halved when causal, 2.5 times that backward, an FMA "
    "as two; gb_per_s counts 4 B H S d elements forward (q, k, v, output) and 8 backward, whatever "
    "the caches saved; queries_per_s is B H S / t; all from the median";
constexpr const char* kPeakIs =
    "products that were needed, over the dense peak of all multiprocessors (or cores) at the clock "
    "seen after the samples";

struct TimedPhase {
  const char* name;
  const char* host;  // its series of host times
  PhaseCost CostFacts::*cost;
};

constexpr std::array kTimedPhases = {
    TimedPhase{"forward", "forward_host", &CostFacts::forward},
    TimedPhase{"backward", "backward_host", &CostFacts::backward},
};

}  // namespace

std::vector<std::string> kernel_series(bool backward) {
  std::vector<std::string> series;
  for (const TimedPhase& phase : std::span(kTimedPhases).first(backward ? 2 : 1))
    series.insert(series.end(), {phase.name, phase.host});
  return series;
}

double counted_bytes(const AttentionConfig& config, bool backward) {
  return (backward ? 8.0 : 4.0) * static_cast<double>(config.batch_size * config.heads) *
         static_cast<double>(config.seq_len * config.head_dim) * info(config.dtype).size;
}

Json kernel_request(const Record& described, const Device& device) {
  return {{"study", "kernel"},
          {"implementation", described.implementation},
          {"mode", described.settings["mode"]},
          {"calls", described.settings["calls_per_sample"]},
          {"copies", described.settings["copies"]},
          {"cache_bytes", last_cache(device.facts(), described.machine).count}};
}

void add_kernel_metrics(const KernelWorkload& workload, const Device& device, Record& record) {
  const AttentionConfig& config = workload.config;
  const std::string_view dtype = info(config.dtype).name;
  const auto queries = static_cast<double>(config.batch_size * config.heads * config.seq_len);
  const DeviceFacts facts = device.facts();
  const Peaks limits = device_peaks(facts, record.machine, dtype);
  const std::optional<double> peak = peak_at_clock_seen(facts, record, dtype);
  Json metrics = record.metrics.value_or(Json::object());
  for (const TimedPhase& phase : kTimedPhases) {
    const Series* series = record.find_series(phase.name);
    const Series* host = record.find_series(phase.host);
    if (!series || !host) continue;
    const bool backward = phase.cost == &CostFacts::backward;
    const PhaseCost& cost = *record.cost.*phase.cost;
    const double seconds = series->statistics.median_ms / 1e3;
    const double needed = 2.0 * static_cast<double>(cost.macs) / seconds;
    Json of = {{"gflops_per_s", static_cast<double>(cost.flops) / seconds / 1e9},
               {"gb_per_s", counted_bytes(config, backward) / seconds / 1e9},
               {"queries_per_s", queries / seconds},
               {"host_us", 1e3 * host->statistics.median_ms}};
    if (peak) of["peak_share"] = needed / *peak;
    metrics[phase.name] = std::move(of);

    Achieved achieved{.flops_per_s = needed};
    // With a flushed cache, reads come from memory and are bounded by its bandwidth, if that is
    // known; writes may still be in the cache.
    if (workload.mode == KernelMode::cold)
      achieved.bytes_per_s = 0.75 * counted_bytes(config, false) / seconds;
    mark_if_faster_than_light(record, phase.name, achieved, limits);
  }
  metrics["conventions"] = kConventions;
  metrics["mode_is"] = fmt::format("{}: {}", info(workload.mode).name, info(workload.mode).summary);
  metrics["peak_share_is"] = kPeakIs;
  record.metrics = std::move(metrics);
}

}  // namespace ridgeline
