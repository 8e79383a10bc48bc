#include "studies/model/metrics.h"

#include <fmt/format.h>

#include "cost/cost.h"
#include "graph/stages.h"
#include "studies/device_facts.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr const char* kLaunches =
    "launches are kernels per step (eager_launches, in records: those of the same graph without "
    "fusion); a launch graph starts all of a step at once, of fwd_bwd each of its stages";
constexpr const char* kReady =
    "compile seconds: tracing, passes, planning, code generation and compiling of kernels that "
    "neither this process nor its cache on disk had yet";

// FLOPs of the products that every implementation of the model needs.
double needed_flops(const TransformerConfig& config, Scenario scenario) {
  return 2 * multiplied_parameters(config) *
         static_cast<double>(config.batch_size * config.context_length) *
         (scenario == Scenario::forward ? 1 : 3);
}

// The dense peak from the data sheet, or the device's peak at the clock seen after the samples.
std::optional<double> dense_peak(const Device& device, const Record& record,
                                 std::string_view dtype) {
  const DeviceFacts facts = device.facts();
  if (const GpuSpec* spec = find_gpu_spec(facts.model); spec && dense_tflops(*spec, dtype) > 0)
    return 1e12 * dense_tflops(*spec, dtype);
  return peak_at_clock_seen(facts, record, dtype);
}

}  // namespace

std::string series_of(Scenario scenario) {
  return std::string(info(scenario).series);
}

double model_flops(const TransformerConfig& config, Scenario scenario) {
  return model_forward_flops(config) * (scenario == Scenario::forward ? 1 : 3);
}

Json at_peak_metrics(const ModelMemory& memory) {
  Json metrics = Json::object();
  for (const MemoryKindInfo& kind : memory_kinds())
    metrics[std::string(kind.column) + "_bytes"] = memory.at_peak[kind.kind].count;
  return metrics;
}

Json memory_metrics(const MemoryFacts& facts) {
  Json of = Json::object();
  const auto put = [&](const char* name, const std::optional<Bytes>& bytes) {
    if (bytes) of[name] = bytes->count;
  };
  put("predicted_peak_bytes", facts.predicted_peak);
  put("peak_bytes", facts.peak);
  put("process_peak_growth_bytes", facts.process_peak_growth);
  put("driver_peak_growth_bytes", facts.driver_peak_growth);
  return of;
}

void add_costs(const ModelWorkload& workload, const Executable& executable, const Device& device,
               Record& record) {
  const double forward = model_forward_flops(workload.config);
  CostFacts facts{.forward = {}, .backward = {}, .convention = kModelFlops};
  const auto phase = [&](const Cost& exact, double flops) {
    return PhaseCost{static_cast<int64_t>(flops), static_cast<int64_t>(exact.macs),
                     Bytes{static_cast<int64_t>(exact.bytes)}};
  };
  const std::vector<Stage> stages = executable.graph().stages();
  const std::vector<Cost> costs = executable.stage_costs();
  const auto of_stages = [&](std::string_view name) {  // of all micro-batches
    Cost sum;
    for (size_t i = 0; i < stages.size(); ++i)
      if (stages[i].name == name) sum += costs[i];
    return sum;
  };
  facts.forward = phase(of_stages(kForwardStage), forward);
  if (stages.size() > 1) facts.backward = phase(of_stages(kBackwardStage), 2 * forward);
  facts.convention += "; macs and bytes count what ran, kernel by kernel";
  record.cost = facts;
  (*record.metrics)["arithmetic"] = arithmetic_metrics(executable.graph(), device);
}

void derive_metrics(const ModelWorkload& workload, const std::vector<Scenario>& scenarios,
                    const Device& device, Record& record) {
  const TransformerConfig& config = workload.config;
  const std::string_view dtype = info(info(workload.precision).products).name;
  const auto tokens = static_cast<double>(config.batch_size * config.context_length);
  const std::optional<double> peak = dense_peak(device, record, dtype);
  const Peaks limits = device_peaks(device.facts(), record.machine, dtype);
  Json& metrics = *record.metrics;
  for (Scenario scenario : scenarios) {
    const Series* series = record.find_series(info(scenario).series);
    if (series == nullptr) continue;
    const double seconds = series->statistics.median_ms / 1e3;
    Json& of = metrics[series_of(scenario)];
    of["tokens_per_s"] = tokens / seconds;
    of["model_flops"] = model_flops(config, scenario);
    if (peak) of["mfu"] = model_flops(config, scenario) / seconds / *peak;
    mark_if_faster_than_light(record, info(scenario).name,
                              {.flops_per_s = needed_flops(config, scenario) / seconds}, limits);
  }
  metrics["model_flops_are"] = kModelFlops;
  if (peak)
    metrics["mfu_is"] =
        fmt::format("model FLOPs over the dense {} peak of {:.4g} TFLOP/s", dtype, *peak / 1e12);
  metrics["launches_are"] = kLaunches;
  metrics["seconds_are"] = kReady;
}

}  // namespace ridgeline
