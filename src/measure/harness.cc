// The public harness: a callable through the protocol into a record.
#include "ridgeline/harness.h"

#include <fmt/format.h>

#include <chrono>

#include "base/error.h"
#include "measure/baseline_rows.h"
#include "measure/machine.h"
#include "measure/record.h"
#include "measure/results_file.h"

namespace ridgeline {
namespace {

constexpr const char* kSeries = "call";

double host_time_ms(const std::function<void()>& work) {
  using namespace std::chrono;
  const auto begin = steady_clock::now();
  work();
  return duration<double, std::milli>(steady_clock::now() - begin).count();
}

Record record_of(const Callable& callable, const HarnessOptions& options) {
  Record record;
  record.study = options.study;
  record.time = utc_now();
  record.implementation = callable.implementation;
  record.device = callable.device;
  record.workload = {{"name", callable.name}};
  for (const auto& [name, size] : callable.sizes) record.workload[name] = size;
  record.machine = collect_machine_facts();
  record.build.version = RIDGELINE_VERSION;
  record.build.compiler = fmt::format("g++ {}", __VERSION__);
  return record;
}

}  // namespace

Harness::Harness(HarnessOptions options) : options_(std::move(options)) {}

Timing Harness::measure(const Callable& callable) {
  if (!callable.run || callable.name.empty())
    throw Error(ErrorKind::usage, "there is nothing to measure",
                "give a Callable a name and a run");
  const CallClock clock = callable.time_ms ? callable.time_ms : CallClock(host_time_ms);
  Record record = record_of(callable, options_);
  DisturbanceWatch watch;
  const Measurement measurement = ridgeline::measure(
      {.warmups = options_.warmups,
       .min_warmup_s = 0,  // its user says how many
       .iterations = options_.iterations,
       .time_budget_s = options_.time_budget_s},
      {kSeries}, [&](std::span<double> phase_ms) { phase_ms[0] = clock(callable.run); });
  record.series = measurement.series;
  record.protocol = measurement.protocol;
  const Statistics& s = record.series.at(0).statistics;
  const double seconds = s.median_ms / 1e3;
  Timing timing{.count = s.count,
                .median_ms = s.median_ms,
                .median_low_ms = s.median_low_ms,
                .median_high_ms = s.median_high_ms,
                .mean_ms = s.mean_ms,
                .std_ms = s.std_ms,
                .min_ms = s.min_ms,
                .max_ms = s.max_ms,
                .p95_ms = s.p95_ms,
                .p99_ms = s.p99_ms,
                .flops_per_s = callable.flops / seconds,
                .bytes_per_s = callable.bytes / seconds,
                .samples_ms = record.series.at(0).samples_ms};
  record.metrics = Json{{kSeries,
                         {{"flops", callable.flops},
                          {"bytes", callable.bytes},
                          {"gflops_per_s", timing.flops_per_s / 1e9},
                          {"gb_per_s", timing.bytes_per_s / 1e9}}}};
  record.disturbance = watch.row_done();
  record.run = options_.run;
  if (!options_.results.empty()) ResultsFile(options_.results).append(record);
  return timing;
}

std::vector<BaselineRow> compare_with_baseline(const std::filesystem::path& baseline,
                                               const std::filesystem::path& results) {
  return baseline_rows(baseline, results, {});
}

}  // namespace ridgeline
