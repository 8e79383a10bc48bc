#include "studies/profile/row.h"

#include "base/clock.h"
#include "base/error.h"
#include "profile/memory_timeline.h"
#include "profile/trace.h"
#include "studies/device_facts.h"
#include "studies/expected_time.h"
#include "studies/memory_watch.h"
#include "studies/profile/metrics.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

// The least time of a kernel under the measured ceilings: its FLOPs at the rate of its dtype, its
// bytes at the rate of the fastest cache that holds them.
std::optional<double> below_ceilings(const ProfiledKernel& kernel, const Roofline& roofline) {
  Roofs roofs;
  if (const ComputeCeiling* compute = roofline.find_compute(info(kernel.dtype).name))
    roofs.flops_per_s = compute->rate;
  const Bytes moved{static_cast<int64_t>(kernel.cost.bytes)};
  if (const MemoryCeiling* memory = roofline.find_memory(moved, /*cold=*/false))
    roofs.bytes_per_s = memory->rate;
  return least_us(kernel.cost, roofs);
}

constexpr const char* kByCeilings =
    "the measured ceilings of `ridgeline roofline`, in the cache that holds the operands";
constexpr const char* kByPeaks =
    "the peaks of data sheets at the highest clock; `ridgeline roofline` measures what can be had";

}  // namespace

ProfileStudy::ProfileStudy(Device& device, ProfileStudyOptions options)
    : device_(device),
      options_(std::move(options)),
      inputs_(device,
              {.seed = options_.row.seed,
               .keep = options_.keep_on_host,
               .loss_scale = options_.optimizer.loss_scaling.value_or(LossScaling{}).initial}),
      meter_(utilisation_of(device, options_.why_not_counters)) {}

Record ProfileStudy::describe(const StepWorkload& workload, const Record& blank) const {
  Record record = describe_row({.study = "profile",
                                .implementation = workload.implementation(),
                                .workload = workload_json(workload)},
                               options_.row, device_, blank);
  if (workload.scenario != Scenario::full_step) record.settings.erase("max_norm");
  record.settings["schedule"] = to_string(options_.schedule);
  if (!workload.peer.empty() && record.settings.contains("optimizer"))
    record.settings["optimizer"] = "pytorch";
  return record;
}

std::unique_ptr<Executable> ProfileStudy::build(const StepWorkload& workload) const {
  return std::make_unique<Executable>(step_trace(workload, options_.optimizer), device_,
                                      step_options(workload, device_));
}

std::optional<Bytes> ProfileStudy::predicted_peak(const StepWorkload& workload) const {
  if (!workload.peer.empty()) return std::nullopt;
  return build(workload)->predicted_peak();
}

double ProfileStudy::expected_s(const StepWorkload& workload, const Record& described) const {
  const double step = expected_once_s({.flops = step_flops(workload)}, device_, described.machine);
  return step * (options_.schedule.steps() + 2 * options_.schedule.active);
}

std::optional<Record> ProfileStudy::run(const StepWorkload& workload, const ProfileRowOptions& how,
                                        Record described) {
  return try_row(std::move(described), label(workload), [&](Record& record) {
    const double begin_s = monotonic_s();
    options_.row.begin("compiling");
    const std::unique_ptr<Executable> executable = build(workload);
    record.memory.predicted_peak = executable->predicted_peak();
    expect_within_budget(*record.memory.predicted_peak, device_);
    MemoryWatch watch(device_);
    executable->prepare();
    record.memory.predicted_peak = executable->predicted_peak();  // may be that of eager execution
    options_.row.begin("parameters");
    fill_inputs(workload, *executable, inputs_, {device_, options_.row.seed, options_.optimizer});
    watch.after_fill();

    options_.row.begin("profiling");
    record.device_before = device_state(device_);
    const bool is_forward_of_both = std::holds_alternative<AttentionConfig>(workload.of) &&
                                    workload.scenario == Scenario::forward;
    const auto step = [&] {
      if (options_.row.interrupted && options_.row.interrupted()) throw Interrupted();
      if (is_forward_of_both)
        executable->run_stage(0);
      else
        executable->run();
    };
    const auto predict = [&](const ProfiledKernel& kernel) -> std::optional<double> {
      if (options_.roofline) return below_ceilings(kernel, *options_.roofline);
      const Peaks peaks = device_peaks(device_.facts(), record.machine, info(kernel.dtype).name);
      // Without a bound on the bandwidth there is no prediction.
      if (!peaks.bytes_per_s) return std::nullopt;
      return least_us(kernel.cost, {.flops_per_s = peaks.flops_per_s.value_or(0),
                                    .bytes_per_s = *peaks.bytes_per_s});
    };
    const Profile profile = record_profile(*executable, device_, options_.tracer,
                                           {.schedule = options_.schedule,
                                            .step = step,
                                            .predict = predict,
                                            .why_not = options_.why_not,
                                            .compare = !options_.tracer || how.is_last});
    record.device_after = device_state(device_);
    watch.after_run(record.memory);
    record.metrics = profile_metrics(profile);
    record.metrics->update({{"launches", executable->launches()},
                            {"predicted_by", options_.roofline ? kByCeilings : kByPeaks}});
    TraceOptions trace{.name = label(workload)};
    if (meter_) {
      options_.row.begin("counting");
      const Utilisation seen = meter_.measure(device_, step);
      (*record.metrics)["utilization"] = utilization_json(seen);
      const int64_t offset_ns =
          options_.tracer ? options_.tracer->now_ns() - monotonic_ns() : int64_t{0};
      if (!seen.source.empty())
        add_utilisation(trace, seen, device_.facts().ordinal, offset_ns, profile);
    }
    if (!executable->fallback().empty())
      (*record.metrics)["ran_eagerly_because"] = executable->fallback();
    record.protocol = {.warmups = options_.schedule.wait + options_.schedule.warmup,
                       .iterations = options_.schedule.active,
                       .elapsed_s = monotonic_s() - begin_s};
    if (how.trace.empty()) return;
    options_.row.begin("writing the trace");
    // A trace that cannot be written does not fail the row.
    try {
      const MemoryTimeline memory =
          predict_memory(*executable, device_, is_forward_of_both ? 1 : kAllStages);
      trace.counters.push_back(memory_track(memory, profile));
      write_trace(profile, how.trace, trace);
      (*record.metrics)["trace"] = how.trace.string();
    } catch (const Error& error) {
      (*record.metrics)["trace_not_written"] = error.message();
    }
  });
}

}  // namespace ridgeline
