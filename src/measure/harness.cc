// The public harness: checks callables, measures them by the protocol, and writes records.
#include "ridgeline/harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/machine_limits.h"
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

int64_t whole(double count) {
  constexpr auto kMost = static_cast<double>(int64_t{1} << 62);
  return count > 0 ? static_cast<int64_t>(std::min(count, kMost)) : 0;
}

// Writes to every line of a buffer twice as large as the machine's largest cache.
class HostCacheFlush {
 public:
  explicit HostCacheFlush(const MachineFacts& machine) {
    constexpr int64_t kLeast = int64_t{8} << 20;
    int64_t largest = kLeast;
    for (const Cache& cache : machine.caches) largest = std::max(largest, cache.size.count);
    buffer_.resize(static_cast<size_t>(2 * largest));
  }
  void operator()() {
    constexpr size_t kLine = 64;
    for (size_t i = 0; i < buffer_.size(); i += kLine) ++buffer_[i];
  }

 private:
  std::vector<char> buffer_;
};

// The state of the machine beside a measurement.
struct Surroundings {
  std::optional<ProcessorSpeed> speed_before = {}, speed_after = {};
  std::optional<Disturbance> disturbance = {};
};

// One callable and the record that it fills.
class Row {
 public:
  Row(const Callable& callable, const HarnessOptions& options)
      : callable_(callable), clock_(callable.time_ms ? callable.time_ms : CallClock(host_time_ms)) {
    if (!callable.run || callable.name.empty())
      throw Error(ErrorKind::usage, "there is nothing to measure",
                  "give a Callable a name and a run");
    record_.study = options.study;
    record_.time = utc_now();
    record_.implementation = callable.implementation;
    record_.device = callable.device;
    record_.workload = {{"name", callable.name}};
    if (callable.sizes.contains("name"))
      throw Error(ErrorKind::usage, "a size is called 'name', as what is measured is",
                  "give it another name");
    for (const auto& [name, size] : callable.sizes) record_.workload[name] = size;
    if (callable.cold_cache) record_.settings["mode"] = "cold";
    record_.machine = collect_machine_facts();
    record_.build = version_and_compiler();
    record_.run = options.run;
    if (callable.flops > 0 || callable.bytes > 0)
      record_.cost = CostFacts{
          .forward = {.flops = whole(callable.flops), .bytes = {whole(callable.bytes)}},
          .backward = {},
          .convention = callable.convention.empty() ? "its author's" : callable.convention};
    if (callable.cold_cache) flush_.emplace(record_.machine);
  }

  // Runs the callable once and checks its results. Returns false if they are wrong.
  bool check() {
    if (!callable_.check) return true;
    callable_.run();
    record_.verification.checked = true;
    record_.verification.what = "the program's own check";
    record_.verification.oracle = "own";
    for (const CheckedResult& result : callable_.check()) {
      record_.verification.tensors.push_back({result.name, result.max_error, result.tolerance});
      if (!(result.max_error <= result.tolerance) && record_.error.empty())
        record_.error = fmt::format("{} is wrong by {:.3g}, its tolerance is {:.3g}", result.name,
                                    result.max_error, result.tolerance);
    }
    if (!record_.error.empty()) record_.status = Status::wrong;
    return record_.error.empty();
  }

  double sample_ms() {
    if (flush_) (*flush_)();
    return clock_(callable_.run);
  }

  Timing finish(const HarnessOptions& options, const Series* series, const ProtocolFacts& protocol,
                const Surroundings& surroundings) {
    Timing timing{.wrong = record_.error};
    if (series != nullptr) {
      record_.series = {*series};
      record_.series[0].name = kSeries;
      record_.protocol = protocol;
      const Statistics& s = series->statistics;
      const double seconds = s.median_ms / 1e3;
      timing = {.count = s.count,
                .median_ms = s.median_ms,
                .median_low_ms = s.median_low_ms,
                .median_high_ms = s.median_high_ms,
                .mean_ms = s.mean_ms,
                .std_ms = s.std_ms,
                .min_ms = s.min_ms,
                .max_ms = s.max_ms,
                .p95_ms = s.p95_ms,
                .p99_ms = s.p99_ms,
                .flops_per_s = callable_.flops / seconds,
                .bytes_per_s = callable_.bytes / seconds,
                .samples_ms = series->samples_ms};
      record_.metrics = Json{{kSeries,
                              {{"flops", callable_.flops},
                               {"bytes", callable_.bytes},
                               {"gflops_per_s", timing.flops_per_s / 1e9},
                               {"gb_per_s", timing.bytes_per_s / 1e9}}}};
    }
    if (record_.device == "cpu") {
      record_.speed_before = surroundings.speed_before;
      record_.speed_after = surroundings.speed_after;
    }
    record_.disturbance = surroundings.disturbance;
    if (!options.results.empty()) ResultsFile(options.results).append(record_);
    return timing;
  }

 private:
  const Callable& callable_;
  CallClock clock_;
  Record record_;
  std::optional<HostCacheFlush> flush_;
};

TimeRatio ratio_of(std::span<const double> base_ms, std::span<const double> ms) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(base_ms.size(), ms.size()); ++i)
    if (base_ms[i] > 0) ratios.push_back(ms[i] / base_ms[i]);
  if (ratios.empty()) return {};
  const Statistics s = summarize(ratios);
  return {s.median_ms, s.median_low_ms, s.median_high_ms};
}

}  // namespace

Harness::Harness(HarnessOptions options) : options_(std::move(options)) {}

Timing Harness::measure(const Callable& callable) {
  return measure_in_turns({callable}).timings[0];
}

Turns Harness::measure_in_turns(const std::vector<Callable>& callables) {
  std::vector<Row> rows;
  for (const Callable& callable : callables) rows.emplace_back(callable, options_);
  DisturbanceWatch watch;
  std::vector<size_t> right;  // rows that take turns
  std::vector<std::string> phases;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].check()) continue;
    right.push_back(i);
    phases.push_back(rows.size() == 1 ? kSeries : fmt::format("{}_{}", kSeries, i));
  }
  Measurement measurement;
  Surroundings surroundings;
  bool backwards = false;
  const auto sample = [&](std::span<double> phase_ms) {
    for (size_t i = 0; i < right.size(); ++i) {
      const size_t turn = backwards ? right.size() - 1 - i : i;
      phase_ms[turn] = rows[right[turn]].sample_ms();
    }
    backwards = !backwards;
  };
  if (!right.empty()) {
    const int threads = available_threads();  // those of the callables are unknown
    measurement = ridgeline::measure(
        {.warmups = options_.warmups,
         .min_warmup_s = 0,  // the user sets the number of warm-ups
         .iterations = options_.iterations,
         .time_budget_s = options_.time_budget_s},
        phases, sample, {.warm = [&] { surroundings.speed_before = processor_speed(threads); }});
    surroundings.speed_after = processor_speed(threads);
  }
  surroundings.disturbance = watch.row_done();
  Turns turns;
  turns.timings.resize(rows.size());
  turns.ratios.resize(rows.size());
  size_t next = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool measured = next < right.size() && right[next] == i;
    const Series* series = measured ? &measurement.series.at(next++) : nullptr;
    turns.timings[i] = rows[i].finish(options_, series, measurement.protocol, surroundings);
    if (measured) turns.ratios[i] = ratio_of(turns.timings[0].samples_ms, series->samples_ms);
  }
  return turns;
}

std::vector<BaselineRow> compare_with_baseline(const std::filesystem::path& baseline,
                                               const std::filesystem::path& results) {
  return baseline_rows(baseline, results, {.axes = harness_axes()});
}

}  // namespace ridgeline
