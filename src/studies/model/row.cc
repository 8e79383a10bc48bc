#include "studies/model/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "base/print.h"
#include "cost/cost.h"
#include "studies/attention/verify.h"
#include "studies/busy_time.h"
#include "studies/device_facts.h"
#include "studies/expected_time.h"
#include "studies/kernel_check.h"
#include "studies/memory_watch.h"

namespace ridgeline {
namespace {

constexpr const char* kLaunches =
    "launches are kernels per step (eager_launches, in records: those of the same graph without "
    "fusion); a launch graph starts all of a step at once, of fwd_bwd each of its two stages";
constexpr const char* kReady =
    "compile seconds: tracing, passes, planning, code generation and compiling of kernels that "
    "neither this process nor its cache on disk had yet";

std::string series_of(Scenario scenario) {
  return std::string(info(scenario).series);
}

// Of a sample: the step, and of fwd-bwd its backward alone.
std::vector<std::string> all_series_of(Scenario scenario) {
  if (scenario != Scenario::forward_backward) return {series_of(scenario)};
  return {series_of(scenario), "backward"};
}

// A model whatever the mode, for what the modes share.
std::string model_key(const ModelWorkload& workload) {
  return label({workload.config, workload.precision, Mode::vanilla}) +
         fmt::format(" {} {} {} {} {}", workload.config.d_model, workload.config.d_ff,
                     workload.config.layers, workload.config.heads, workload.config.vocabulary);
}

double model_flops(const TransformerConfig& config, Scenario scenario) {
  return model_forward_flops(config) * (scenario == Scenario::forward ? 1 : 3);
}

// Products that no way of computing the model can do without.
double needed_flops(const TransformerConfig& config, Scenario scenario) {
  const auto multiplied =
      static_cast<double>(parameter_count(config) - config.vocabulary * config.d_model);
  return 2 * multiplied * static_cast<double>(config.batch_size * config.context_length) *
         (scenario == Scenario::forward ? 1 : 3);
}

// The dense peak of the data sheet, or what the device can do at the clock that was seen.
std::optional<double> dense_peak(const Device& device, const Record& record,
                                 std::string_view dtype) {
  const DeviceFacts facts = device.facts();
  if (const GpuSpec* spec = find_gpu_spec(facts.model); spec && dense_tflops(*spec, dtype) > 0)
    return 1e12 * dense_tflops(*spec, dtype);
  return peak_at_clock_seen(facts, record, dtype);
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

// ", peak memory 1.00 GiB"; records come from files, so nothing is taken for granted.
std::string measured_peak(const Record& record, std::string_view series) {
  const Json all = record.metrics.value_or(Json::object());
  const auto of = all.find(series);
  if (of == all.end() || !of->is_object()) return {};
  const auto peak = of->find("peak_bytes");
  if (peak == of->end() || !peak->is_number_integer()) return {};
  return ", peak memory " + to_string(Bytes{peak->get<int64_t>()});
}

// What is timed by itself: of forward and backward each of its stages, else all at once.
std::vector<std::function<void()>> parts_of(Executable& executable) {
  if (scenario_of(executable) != Scenario::forward_backward)
    return {[&executable] { executable.run(); }};
  std::vector<std::function<void()>> parts;
  for (size_t stage = 0; stage < executable.graph().stages().size(); ++stage)
    parts.emplace_back([&executable, stage] { executable.run_stage(stage); });
  return parts;
}

// The least time that the kernels, one after the other, can take under these peaks; 0: not known.
double roofline_seconds(const Executable& executable, const Peaks& peaks) {
  double seconds = 0;
  for (const Cost& cost : executable.kernel_costs()) {
    const double computing = peaks.flops_per_s ? cost.flops / *peaks.flops_per_s : 0;
    const double moving = peaks.bytes_per_s ? cost.bytes / *peaks.bytes_per_s : 0;
    seconds += std::max(computing, moving);
  }
  return seconds;
}

void add_costs(const ModelWorkload& workload, const Executable& executable, const Device& device,
               Record& record) {
  const double forward = model_forward_flops(workload.config);
  CostFacts facts{.forward = {}, .backward = {}, .convention = kModelFlops};
  const auto phase = [&](const Cost& exact, double flops) {
    return PhaseCost{static_cast<int64_t>(flops), static_cast<int64_t>(exact.macs),
                     Bytes{static_cast<int64_t>(exact.bytes)}};
  };
  const std::vector<Cost> stages = executable.stage_costs();
  facts.forward = phase(stages[0], forward);
  if (stages.size() > 1) facts.backward = phase(stages[1], 2 * forward);
  facts.convention += "; macs and bytes count what ran, kernel by kernel";
  record.cost = facts;
  (*record.metrics)["arithmetic"] = arithmetic_metrics(executable.graph(), device);
}

}  // namespace

Json at_peak_metrics(const ModelMemory& memory) {
  Json metrics = Json::object();
  for (const MemoryKindInfo& kind : memory_kinds())
    metrics[std::string(kind.column) + "_bytes"] = memory.at_peak[kind.kind].count;
  return metrics;
}

ModelStudy::ModelStudy(Device& device, ModelStudyOptions options)
    : device_(device),
      options_(std::move(options)),
      inputs_(device,
              {.seed = options_.seed, .keep = options_.keep_on_host, .weights = options_.weights}) {
  std::vector<Scenario>& chosen = options_.scenarios;
  if (chosen.empty()) throw Error(ErrorKind::usage, "no scenario to measure", "use full-step");
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  options_.protocol.time_budget_s /= static_cast<double>(chosen.size());
  // Weights that are saved were trained for as many steps as asked for, on any machine.
  if (!options_.save_weights.empty()) options_.protocol.min_warmup_s = 0;
}

Record ModelStudy::describe(const ModelWorkload& workload, const Record& blank) const {
  const TransformerConfig& config = workload.config;
  Record record = blank;
  record.study = "model";
  record.implementation = info(workload.mode).name;
  record.device = device_.name();
  record.workload = {
      {"model_size", config.name},       {"context_length", config.context_length},
      {"batch_size", config.batch_size}, {"precision", info(workload.precision).name},
      {"d_model", config.d_model},       {"d_ff", config.d_ff},
      {"layers", config.layers},         {"heads", config.heads},
      {"vocabulary", config.vocabulary}, {"num_params", parameter_count(config)}};
  record.settings = device_settings(device_, options_.seed);
  record.settings.update(options_.settings);
  std::string names;
  for (Scenario scenario : options_.scenarios)
    names += (names.empty() ? "" : ",") + std::string(info(scenario).name);
  record.settings["scenarios"] = names;
  record.settings["warmup_steps"] = options_.protocol.warmups;
  return record;
}

Bytes ModelStudy::predicted_peak(const ModelWorkload& workload) const {
  Bytes peak;
  for (Scenario scenario : options_.scenarios)
    peak = std::max(peak, build(workload, scenario)->predicted_peak());
  return peak;
}

double ModelStudy::expected_s(const ModelWorkload& workload, const Record& described) const {
  constexpr double kDrawS = 12e-9;  // of one parameter on the host
  constexpr double kRunsBesideSamples = 2;
  const TransformerConfig& config = workload.config;
  const auto parameters = static_cast<double>(parameter_count(config));
  double seconds = 0;
  for (Scenario scenario : options_.scenarios) {
    const double step =
        expected_once_s({.flops = model_flops(config, scenario),
                         .bytes = parameters * (scenario == Scenario::full_step ? 28 : 4),
                         .dtype = info(info(workload.precision).products).name},
                        device_, described.machine);
    seconds += parameters * kDrawS + kRunsBesideSamples * step +
               expected_samples_s(step, options_.protocol);
  }
  return seconds;
}

void ModelStudy::remember(const ModelWorkload& workload, Scenario scenario,
                          const ModelSample& sample) {
  if (remembered_model_ != model_key(workload)) remembered_.clear();
  remembered_model_ = model_key(workload);
  remembered_.insert_or_assign(scenario == Scenario::forward, sample);
}

std::optional<ModelSample> ModelStudy::reference(const ModelWorkload& workload, Scenario scenario) {
  const bool is_forward = scenario == Scenario::forward;
  if (remembered_model_ == model_key(workload) && remembered_.contains(is_forward))
    return remembered_.at(is_forward);
  // A run of vanilla for comparison only; where it does not fit, there is none.
  Scenario wanted = is_forward ? Scenario::forward : Scenario::forward_backward;
  if (!is_forward && options_.optimizer.max_norm > 0) wanted = Scenario::full_step;  // has the norm
  const TransformerConfig& config = workload.config;
  const auto built = build({config, workload.precision, Mode::vanilla}, wanted);
  Executable& vanilla = *built;
  if (vanilla.predicted_peak() > device_.ledger().budget()) return std::nullopt;
  try {
    vanilla.prepare();
    inputs_.fill(vanilla, config);
    const ModelSampler sampler(vanilla, device_, config, inputs_.ids(config, "targets"),
                               options_.seed, options_.optimizer);
    inputs_.set_step(vanilla, 1, options_.optimizer);
    vanilla.run();
    device_.synchronize();
    remember(workload, scenario, sampler.after_run());
  } catch (const Error& error) {
    if (!status_of(error)) throw;
    return std::nullopt;
  }
  return remembered_.at(is_forward);
}

std::unique_ptr<Executable> ModelStudy::build(const ModelWorkload& workload, Scenario scenario,
                                              const std::string& of) const {
  CompileOptions options = model_options(workload, device_);
  options.message = say_once;
  if (options_.stage && !of.empty())
    options.stage = [this, of](std::string_view what) {
      options_.stage(fmt::format("{}: {}", of, what));
    };
  return std::make_unique<Executable>(model_trace(workload.config, scenario, options_.optimizer),
                                      device_, std::move(options));
}

void ModelStudy::begin(Scenario scenario, const char* stage) const {
  if (options_.stage) options_.stage(fmt::format("{}: {}", info(scenario).name, stage));
}

void ModelStudy::predict(const Executable& executable, Bytes before, Record& record) const {
  const Bytes predicted = executable.predicted_peak(), budget = device_.ledger().budget();
  record.memory.predicted_peak = std::max(before, predicted);
  Json& metrics = (*record.metrics)[series_of(scenario_of(executable))];
  metrics = {{"predicted_peak_bytes", predicted.count},
             {"at_peak", at_peak_metrics(model_memory(executable))}};
  if (!executable.fallback().empty()) metrics["ran_eagerly_because"] = executable.fallback();
  if (predicted > budget)
    throw Error(ErrorKind::out_of_memory,
                fmt::format("the predicted peak of {} is above the budget of {}; not tried",
                            to_string(predicted), to_string(budget)));
}

// After all others, as it changes parameters and moments.
void ModelStudy::check_kernels(Executable& executable, const TransformerConfig& config,
                               Verification& verification) {
  constexpr int64_t kStep = 3;  // whose corrections are neither 1 nor 1 - beta
  begin(scenario_of(executable), "verifying, kernel by kernel");
  inputs_.fill_unevenly(executable, config);
  inputs_.set_step(executable, kStep, options_.optimizer);
  KernelChecker checker(device_, options_.seed);
  executable.set_poison(true);
  executable.set_observer(&checker);
  executable.run();
  executable.set_observer(nullptr);
  executable.set_poison(false);
  const std::string prefix = series_of(scenario_of(executable)) + '.';
  checker.report(prefix, verification);
  if (scenario_of(executable) == Scenario::full_step)
    verification.tensors.push_back(
        {prefix + "optimizer_settings",
         update_settings_error(executable, device_, options_.optimizer, kStep),
         info(DType::f32).epsilon});
}

bool ModelStudy::run_scenario(const ModelWorkload& workload, Scenario scenario, Record& record) {
  const TransformerConfig& config = workload.config;
  const auto built = build(workload, scenario, std::string(info(scenario).name));
  Executable& executable = *built;
  const Bytes before = record.memory.predicted_peak.value_or(Bytes{});
  predict(executable, before, record);
  Json& metrics = (*record.metrics)[series_of(scenario)];
  const bool compares = options_.verify && workload.mode != Mode::vanilla;
  if (compares) begin(scenario, "vanilla, to compare");
  const std::optional<ModelSample> vanilla =
      compares ? reference(workload, scenario) : std::nullopt;

  MemoryWatch watch(device_);
  executable.prepare();
  const bool ran_eagerly = !executable.fallback().empty();
  if (ran_eagerly) predict(executable, before, record);
  begin(scenario, "parameters");
  inputs_.fill(executable, config);
  watch.after_fill();
  int64_t step = 0;
  // One that is timed part by part is launched so, too: a launch graph for each of its parts.
  const std::vector<std::function<void()>> parts = parts_of(executable);
  const auto run_step = [&] {
    inputs_.set_step(executable, ++step, options_.optimizer);
    return device_.time_each_ms(parts);
  };
  // The run that is looked at: over poisoned results, from parameters as they begin. Without
  // warm-ups it comes last, so that the first sample is the first run.
  const auto look = [&] {
    std::optional<ModelSampler> sampler;
    if (options_.verify)
      sampler.emplace(executable, device_, config, inputs_.ids(config, "targets"), options_.seed,
                      options_.optimizer);
    executable.set_poison(options_.verify);
    const double begin = monotonic_s();
    run_step();
    device_.synchronize();
    if (step == 1) metrics["first_run_seconds"] = monotonic_s() - begin;
    executable.set_poison(false);
    if (!sampler) return;
    ModelSample sample = sampler->after_run();
    sample.is_drawn = options_.weights.empty();
    compare_samples(workload, scenario, sample, vanilla, record.verification);
    if (compares && !vanilla)
      record.verification.what += "; vanilla does not fit, so no comparison";
    if (workload.mode == Mode::vanilla) remember(workload, scenario, sample);
    metrics["loss"] = sample.loss;
  };
  MemoryFacts memory;
  const bool look_first = options_.protocol.warmups > 0;
  if (look_first) {
    begin(scenario, device_.can_record() ? "first step, choosing algorithms" : "first step");
    look();
    // A compiled one allocates nothing more, but launch graphs that it records take memory.
    if (workload.mode == Mode::vanilla || ran_eagerly) {
      watch.after_run(memory);
      device_.ledger().keep_blocks();
    }
  }
  begin(scenario, "measuring");
  const Measurement measurement =
      measure(options_.protocol, all_series_of(scenario),
              [&](std::span<double> phase_ms) {
                const std::vector<double> parts_ms = run_step();
                phase_ms[0] = std::accumulate(parts_ms.begin(), parts_ms.end(), 0.0);
                if (phase_ms.size() > 1) phase_ms[1] = parts_ms.back();
              },
              {.interrupted = options_.interrupted});
  if (measurement.interrupted()) return false;
  for (const Series& series : measurement.series) record.series.push_back(series);
  const double elapsed = record.protocol.elapsed_s + measurement.protocol.elapsed_s;
  record.protocol = measurement.protocol;
  record.protocol.elapsed_s = elapsed;
  if (!memory.peak) watch.after_run(memory);
  memory.predicted_peak = executable.predicted_peak();
  if (scenario == Scenario::full_step && !options_.save_weights.empty()) {
    inputs_.save_weights(executable, config, step, options_.save_weights);
    metrics["saved_weights"] = options_.save_weights.string();
  }
  if (!look_first) {
    begin(scenario, "verifying");
    if (scenario == Scenario::full_step) inputs_.fill(executable, config);
    step = 0;
    look();
    metrics.erase("first_run_seconds");  // it was not the first
  }

  metrics.update(memory_metrics(memory));
  metrics["compile_seconds"] = executable.compile_seconds();
  metrics["launches"] = executable.launches();
  metrics["eager_launches"] = executable.eager_launches();
  if (info(workload.mode).launch_graph && device_.can_record() && !ran_eagerly)
    metrics["graph_launches"] = parts.size();
  if (memory.peak > record.memory.peak.value_or(Bytes{})) {
    const std::optional<Bytes> largest = record.memory.predicted_peak;
    record.memory = memory;
    record.memory.predicted_peak = largest;
  }
  add_costs(workload, executable, device_, record);
  begin(scenario, "busy time");
  std::vector<BusyPhase> busy = {{series_of(scenario), [&] {
                                    return device_.busy_ms([&] {
                                      for (const auto& part : parts) part();
                                    });
                                  }}};
  if (parts.size() > 1)
    busy.push_back({measurement.series.back().name, [&] {
                      for (size_t part = 0; part + 1 < parts.size(); ++part) parts[part]();
                      return device_.busy_ms(parts.back());
                    }});
  add_busy_times(busy, record);
  if (options_.verify) check_kernels(executable, config, record.verification);
  return true;
}

std::optional<Record> ModelStudy::run(const ModelWorkload& workload, Record record) {
  record.time = utc_now();
  record.metrics = Json::object();
  record.device_before = device_state(device_);
  const auto fail = [&](Scenario scenario, const Error& error, Status status) {
    if (record.status == Status::ok) record.status = status;
    record.error += fmt::format("{}{}: {}", record.error.empty() ? "" : "; ", info(scenario).name,
                                error.message());
  };
  for (Scenario scenario : options_.scenarios) {
    try {
      if (!run_scenario(workload, scenario, record)) return std::nullopt;
    } catch (const Error& error) {
      const std::optional<Status> status =
          error.kind() == ErrorKind::wrong_result ? Status::wrong : status_of(error);
      if (!status) throw error.at(label(workload) + ", " + std::string(info(scenario).name));
      fail(scenario, error, *status);
      if (*status == Status::unsupported) break;
    }
  }
  record.device_after = device_state(device_);
  if (const std::string wrong = first_wrong_tensor(record.verification); !wrong.empty()) {
    record.status = Status::wrong;
    record.error += (record.error.empty() ? "" : "; ") + wrong;
  }
  derive(workload, record);
  return record;
}

void ModelStudy::derive(const ModelWorkload& workload, Record& record) const {
  const TransformerConfig& config = workload.config;
  const std::string_view dtype = info(info(workload.precision).products).name;
  const auto tokens = static_cast<double>(config.batch_size * config.context_length);
  const std::optional<double> peak = dense_peak(device_, record, dtype);
  const Peaks limits = device_peaks(device_.facts(), record.machine, dtype);
  Json& metrics = *record.metrics;
  for (Scenario scenario : options_.scenarios) {
    const Series* series = record.find_series(info(scenario).series);
    if (series == nullptr) continue;
    const double seconds = series->statistics.median_ms / 1e3;
    Json& of = metrics[series_of(scenario)];
    of["tokens_per_s"] = tokens / seconds;
    of["model_flops"] = model_flops(config, scenario);
    if (peak) of["mfu"] = model_flops(config, scenario) / seconds / *peak;
    const auto reason =
        faster_than_light({.flops_per_s = needed_flops(config, scenario) / seconds}, limits);
    if (reason && record.status == Status::ok) {
      record.status = Status::invalid;
      record.error = fmt::format("{}: {}", info(scenario).name, *reason);
    }
  }
  metrics["model_flops_are"] = kModelFlops;
  if (peak)
    metrics["mfu_is"] =
        fmt::format("model FLOPs over the dense {} peak of {:.4g} TFLOP/s", dtype, *peak / 1e12);
  metrics["launches_are"] = kLaunches;
  metrics["seconds_are"] = kReady;
}

std::string ModelStudy::explain(const ModelWorkload& workload, const Record* record) const {
  const std::string_view dtype = info(info(workload.precision).products).name;
  const MachineFacts machine = record ? record->machine : collect_machine_facts();
  const Peaks peaks = device_peaks(device_.facts(), machine, dtype);
  std::string text;
  for (Scenario scenario : options_.scenarios) {
    const auto built = build(workload, scenario);
    Executable& executable = *built;
    text += fmt::format("{}, {}\n", label(workload), info(scenario).name);
    text += fmt::format("predicted: peak memory {}, at least {} by the roofline\n",
                        to_string(executable.predicted_peak()),
                        format_seconds(roofline_seconds(executable, peaks)));
    const Series* series = record ? record->find_series(info(scenario).series) : nullptr;
    if (series != nullptr)
      text += fmt::format("measured: {} (median){}\n",
                          format_seconds(series->statistics.median_ms / 1e3),
                          measured_peak(*record, info(scenario).series));
    ModelWorkload vanilla = workload;
    vanilla.mode = Mode::vanilla;
    text += fmt::format("launches per step: {} vanilla, {} unfused, {} fused, {}\n",
                        build(vanilla, scenario)->launches(), executable.eager_launches(),
                        executable.launches(),
                        info(workload.mode).launch_graph && device_.can_record()
                            ? fmt::format("{} as launch graphs", parts_of(executable).size())
                            : "no launch graph");
    const bool timed = series != nullptr && device_.can_record();
    if (timed) {  // kernels by themselves, over inputs that make sense
      executable.prepare();
      ModelInputs inputs(device_, {.seed = options_.seed});
      inputs.fill(executable, workload.config);
      inputs.set_step(executable, 1, options_.optimizer);
      executable.run();
    }
    text += executable.explain(timed) + "\n";
  }
  return text;
}

}  // namespace ridgeline
