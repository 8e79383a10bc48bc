#include "studies/attention/row.h"

#include <fmt/format.h>

#include "base/error.h"
#include "compile/executable.h"
#include "cost/cost.h"
#include "studies/attention/verify.h"
#include "studies/busy_time.h"
#include "studies/device_facts.h"
#include "studies/host_tensors.h"
#include "studies/kernel_check.h"
#include "studies/memory/attention.h"
#include "studies/memory_watch.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr const char* kConvention =
    "forward 4 B H S S d, halved when causal; backward 2.5 times forward; an FMA counts as two. "
    "macs and bytes are exact counts over the nodes that ran";

}  // namespace

CostFacts attention_cost(const AttentionConfig& config, const Cost& forward, const Cost& backward) {
  const double forward_flops = attention_flops(config);
  if (forward_flops > 0x1p60)
    throw Error(ErrorKind::usage,
                fmt::format("S={} d={} needs {:.3g} FLOP forward, too many to count",
                            config.seq_len, config.head_dim, forward_flops),
                "choose smaller sizes");
  const auto phase = [](const Cost& exact, double flops) {
    return PhaseCost{static_cast<int64_t>(flops), static_cast<int64_t>(exact.macs),
                     Bytes{static_cast<int64_t>(exact.bytes)}};
  };
  return {phase(forward, forward_flops), phase(backward, kBackwardOverForward * forward_flops),
          kConvention};
}

CostFacts attention_cost(const AttentionConfig& config, const Graph& graph) {
  const std::vector<Stage> stages = graph.stages();
  return attention_cost(config, stage_cost(graph, stages[0]), stage_cost(graph, stages[1]));
}

namespace {

// Bytes of the tensors with S x S elements that are live at the peak.
Bytes quadratic_bytes(const AttentionConfig& config, const Graph& graph,
                      const MemoryProfile& profile) {
  Bytes total;
  for (const Lifetime& lifetime : profile.at_peak())
    if (is_quadratic(config, graph, lifetime)) total += lifetime.bytes;
  return total;
}

// Runs every kernel once: a GPU loads code, creates library handles and tunes on the first launch
// of a node, which must not count in the measured memory and time.
void run_every_kernel_once(Executable& executable, Device& device) {
  executable.prepare();
  const Graph& graph = executable.graph();
  for (Value value : graph.inputs()) device.poison(executable.input(graph.name(value)));
  for (size_t stage = 0; stage < graph.stages().size(); ++stage) executable.run_stage(stage);
  device.synchronize();
  executable.release();
}

// Fills in what is known without a run.
void predict(const AttentionConfig& config, const Executable& executable, Record& record) {
  record.memory.predicted_before_backward = executable.predicted_after(0);
  record.memory.predicted_peak = executable.predicted_peak();
  if (const MemoryProfile* profile = executable.profile())
    record.memory.predicted_quadratic = quadratic_bytes(config, executable.graph(), *profile);
  const std::vector<Cost> stages = executable.stage_costs();
  record.cost = attention_cost(config, stages[0], stages[1]);
}

Json compile_metrics(const Executable& executable) {
  Json metrics = {{"compile_seconds", executable.compile_seconds()},
                  {"compile_seconds_are",
                   "tracing, passes, planning, code generation and compiling of kernels that "
                   "neither this process nor its cache on disk had yet"}};
  if (!executable.fallback().empty()) metrics["ran_eagerly_because"] = executable.fallback();
  return metrics;
}

Verification verify(const AttentionWorkload& workload, const Executable& executable, Device& device,
                    uint64_t seed) {
  const HeadReader read = [&](const char* name, int64_t head) {
    const TensorView whole =
        executable.has_output(name) ? executable.output(name) : executable.input(name);
    return read_values(device, sub_tensor(whole, head));
  };
  HostThreads threads(device);
  return verify_attention(workload.config, {.log_sum_exp = executable.has_output("log_sum_exp")},
                          read, seed, threads.runner());
}

// Runs once more and checks each kernel in isolation; adds only wrong results.
void check_kernels(Executable& executable, const Device& device, uint64_t seed,
                   Verification& verification) {
  KernelChecker checker(device, seed);
  executable.set_poison(true);
  executable.set_observer(&checker);
  for (size_t stage = 0; stage < executable.graph().stages().size(); ++stage)
    executable.run_stage(stage);
  executable.set_observer(nullptr);
  executable.set_poison(false);
  verification.tensors.insert(verification.tensors.end(), checker.wrong().begin(),
                              checker.wrong().end());
}

}  // namespace

AttentionRunner::AttentionRunner(Device& device, AttentionStudyOptions options)
    : device_(device), options_(std::move(options)) {}

Record AttentionRunner::describe(const AttentionWorkload& workload, const Record& blank) {
  const AttentionConfig& config = workload.config;
  Record record = describe_row({.study = "attention",
                                .implementation = workload.implementation,
                                .workload = workload_json(config)},
                               options_.row, device_, blank);
  const AttentionImplementation& how = find_attention_implementation(workload.implementation);
  if (chooses_backward(workload.implementation))
    record.settings["backward"] = name(config.backward);

  record.error = refusal(config, how.form);
  if (!record.error.empty()) {
    record.status = Status::unsupported;
    record.cost = attention_cost(config, attention_training_graph(config, how.form));
    return record;
  }
  predict(config,
          planned_.plan(record, attention_trace(workload), device_, attention_options(workload)),
          record);
  return record;
}

void check_speed(Record& record, const Device& device, std::string_view dtype) {
  const Peaks peaks = device_peaks(device.facts(), record.machine, dtype);
  const auto check = [&](const char* phase, const PhaseCost& cost) {
    const Series* series = record.find_series(phase);
    if (!series) return;
    const double seconds = series->statistics.median_ms / 1e3;
    mark_if_faster_than_light(
        record, phase, {.flops_per_s = 2.0 * static_cast<double>(cost.macs) / seconds}, peaks);
  };
  check("forward", record.cost->forward);
  check("backward", record.cost->backward);
}

std::optional<Record> AttentionRunner::run(const AttentionWorkload& workload, Record described) {
  return try_row(std::move(described), label(workload), [&](Record& record) {
    if (!options_.try_beyond_budget) expect_within_budget(*record.memory.predicted_peak, device_);
    const auto planned =
        planned_.take(record, attention_trace(workload), device_, attention_options(workload));
    Executable& executable = *planned;
    const Graph& graph = executable.graph();
    if (device_.driver_memory_in_use()) run_every_kernel_once(executable, device_);
    const MemoryWatch watch(device_);
    executable.prepare();
    if (!executable.fallback().empty()) predict(workload.config, executable, record);
    for (Value value : graph.inputs())
      fill_randomly(device_, executable.input(graph.name(value)), options_.row.seed,
                    graph.name(value));

    // The first run, over poisoned results, gives the memory and the values to verify.
    executable.set_poison(true);
    executable.run_stage(0);
    record.memory.before_backward = device_.ledger().live();
    executable.run_stage(1);
    device_.synchronize();
    watch.after_run(record.memory);
    device_.ledger().keep_blocks();
    executable.set_poison(false);
    record.metrics = Json{{"arithmetic", arithmetic_metrics(graph, device_)},
                          {"launches", executable.launches()}};
    if (is_planned(workload)) record.metrics->update(compile_metrics(executable));
    if (options_.row.verify) {
      Verification verification = verify(workload, executable, device_, options_.row.seed);
      check_kernels(executable, device_, options_.row.seed, verification);
      take_verification(record, std::move(verification));
    }

    sample_row(record, device_, options_.row, {"forward", "backward"},
               [&](std::span<double> phase_ms) {
                 for (size_t stage = 0; stage < phase_ms.size(); ++stage)
                   phase_ms[stage] = device_.time_ms([&] { executable.run_stage(stage); });
               });
    std::vector<BusyPhase> phases;
    for (size_t stage = 0; stage < record.series.size(); ++stage)
      phases.push_back({record.series[stage].name, [&, stage] {
                          return device_.busy_ms([&] { executable.run_stage(stage); });
                        }});
    add_busy_times(phases, record);
    check_speed(record, device_, info(workload.config.dtype).name);
  });
}

std::string explain_plan(const AttentionWorkload& workload, Device& device) {
  Executable executable(attention_trace(workload), device, attention_options(workload));
  return label(workload) + "\n" + executable.explain();
}

}  // namespace ridgeline
