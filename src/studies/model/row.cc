#include "studies/model/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/print.h"
#include "base/sort_by.h"
#include "graph/stages.h"
#include "studies/busy_time.h"
#include "studies/device_facts.h"
#include "studies/expected_time.h"
#include "studies/kernel_check.h"
#include "studies/memory_watch.h"
#include "studies/model/first_steps.h"
#include "studies/model/loss_scale.h"
#include "studies/model/metrics.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

// The series of a scenario: the step and, for fwd-bwd, backward alone.
std::vector<std::string> all_series_of(Scenario scenario) {
  if (scenario != Scenario::forward_backward) return {series_of(scenario)};
  return {series_of(scenario), "backward"};
}

// Identifies a model across its modes.
std::string model_key(const ModelWorkload& workload) {
  return label({workload.config, workload.precision, Mode::vanilla}) +
         fmt::format(" {} {} {} {} {}", workload.config.d_model, workload.config.d_ff,
                     workload.config.layers, workload.config.heads, workload.config.vocabulary);
}

}  // namespace

std::vector<std::function<void()>> parts_of(Executable& executable) {
  if (scenario_of(executable) != Scenario::forward_backward)
    return {[&executable] { executable.run(); }};
  std::vector<std::function<void()>> parts;
  for (size_t stage = 0; stage < executable.graph().stages().size(); ++stage)
    parts.emplace_back([&executable, stage] { executable.run_stage(stage); });
  return parts;
}

ModelStudy::ModelStudy(Device& device, ModelStudyOptions options)
    : device_(device),
      options_(std::move(options)),
      inputs_(device,
              {.seed = options_.row.seed,
               .keep = options_.keep_on_host,
               .weights = options_.weights,
               .loss_scale = options_.optimizer.loss_scaling.value_or(LossScaling{}).initial}) {
  std::vector<Scenario>& chosen = options_.scenarios;
  if (chosen.empty()) throw Error(ErrorKind::usage, "no scenario to measure", "use full-step");
  chosen = distinct(std::move(chosen));
  options_.row.protocol.time_budget_s /= static_cast<double>(chosen.size());
  // Saved weights are the result of exactly the requested steps, on any machine.
  if (!options_.save_weights.empty()) options_.row.protocol.min_warmup_s = 0;
}

Record ModelStudy::describe(const ModelWorkload& workload, const Record& blank) const {
  Record record = describe_row({.study = "model",
                                .implementation = info(workload.mode).name,
                                .workload = workload_json(workload)},
                               options_.row, device_, blank);
  std::string names;
  for (Scenario scenario : options_.scenarios)
    names += (names.empty() ? "" : ",") + std::string(info(scenario).name);
  record.settings["scenarios"] = names;
  record.settings["warmup_steps"] = options_.row.protocol.warmups;
  if (const auto scaling = optimizer_of(workload, options_.optimizer).loss_scaling) {
    record.settings["loss_scale"] = scaling->initial;
    record.settings["loss_scale_growth"] = scaling->growth_interval;
  }
  return record;
}

Bytes ModelStudy::predicted_peak(const ModelWorkload& workload) const {
  Bytes peak;
  for (Scenario scenario : options_.scenarios)
    peak = std::max(peak, build(workload, scenario)->predicted_peak());
  return peak;
}

double ModelStudy::expected_s(const ModelWorkload& workload, const Record& described) const {
  constexpr double kDrawS = 12e-9;  // per parameter, on the host
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
               expected_samples_s(step, options_.row.protocol);
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
  // Run vanilla for comparison only, if it fits.
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
                               options_.row.seed, options_.optimizer);
    inputs_.set_step(vanilla, 1, options_.optimizer);
    remember(workload, scenario, first_sample(vanilla, sampler, [&] { vanilla.run(); }));
  } catch (const Error& error) {
    if (!status_of(error)) throw;
    return std::nullopt;
  }
  return remembered_.at(is_forward);
}

ModelSample ModelStudy::first_sample(const Executable& executable, const ModelSampler& sampler,
                                     const std::function<void()>& run) {
  constexpr int kMostHalvings = 40;
  const bool is_dynamic =
      options_.optimizer.loss_scaling.value_or(LossScaling{}).growth_interval > 0;
  for (int halvings = 0;; ++halvings) {
    run();
    device_.synchronize();
    ModelSample sample = sampler.after_run();
    if (!executable.has_input(kLossScaleInput) || has_finite_gradients(sample)) return sample;
    const double scale = read_loss_scale(executable, device_).scale;
    if (!is_dynamic || halvings == kMostHalvings)
      throw Error(ErrorKind::wrong_result,
                  fmt::format("gradients are not finite with a loss scale of {:g}", scale),
                  "use a smaller --loss-scale, or dynamic, which finds one");
    // A full step halves the scale itself.
    if (scenario_of(executable) != Scenario::full_step)
      set_loss_scale(executable, device_, scale / 2);
  }
}

std::unique_ptr<Executable> ModelStudy::build(const ModelWorkload& workload, Scenario scenario,
                                              const std::string& of) const {
  CompileOptions options = model_options(workload, device_);
  options.message = say_once;
  if (options_.row.stage && !of.empty())
    options.stage = [this, of](std::string_view what) {
      options_.row.stage(fmt::format("{}: {}", of, what));
    };
  return std::make_unique<Executable>(model_trace(workload, scenario, options_.optimizer), device_,
                                      std::move(options));
}

void ModelStudy::begin(Scenario scenario, const char* stage) const {
  options_.row.begin(fmt::format("{}: {}", info(scenario).name, stage));
}

void ModelStudy::predict(const Executable& executable, Bytes before, Record& record) const {
  const Bytes predicted = executable.predicted_peak();
  record.memory.predicted_peak = std::max(before, predicted);
  Json& metrics = (*record.metrics)[series_of(scenario_of(executable))];
  metrics = {{"predicted_peak_bytes", predicted.count},
             {"at_peak", at_peak_metrics(model_memory(executable))}};
  if (!executable.fallback().empty()) metrics["ran_eagerly_because"] = executable.fallback();
  expect_within_budget(predicted, device_);
}

// Runs last, because it changes parameters and moments.
void ModelStudy::check_kernels(Executable& executable, const ModelWorkload& workload,
                               Verification& verification) {
  constexpr int64_t kStep = 3;         // its bias corrections are neither 1 nor 1 - beta
  constexpr double kLossScale = 1024;  // within the range of fp16
  begin(scenario_of(executable), "verifying, kernel by kernel");
  inputs_.fill_unevenly(executable, workload.config);
  inputs_.set_step(executable, kStep, options_.optimizer);
  if (executable.has_input(kLossScaleInput)) set_loss_scale(executable, device_, kLossScale);
  KernelChecker checker(device_, options_.row.seed);
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
         update_settings_error(executable, device_, optimizer_of(workload, options_.optimizer),
                               kStep),
         info(DType::f32).epsilon});
}

void ModelStudy::run_scenario(const ModelWorkload& workload, Scenario scenario, Record& record) {
  const TransformerConfig& config = workload.config;
  const auto built = build(workload, scenario, std::string(info(scenario).name));
  Executable& executable = *built;
  const Bytes before = record.memory.predicted_peak.value_or(Bytes{});
  predict(executable, before, record);
  Json& metrics = (*record.metrics)[series_of(scenario)];
  const bool compares = options_.row.verify && workload.mode != Mode::vanilla;
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
  // A step that is timed in parts is launched in parts: one launch graph for each.
  const std::vector<std::function<void()>> parts = parts_of(executable);
  const std::vector<Stage> stages = executable.graph().stages();
  const bool scales_loss = executable.has_input(kLossScaleInput);
  LossScale loss_scale;
  FirstSteps first_steps(device_);
  const auto run_step = [&] {
    inputs_.set_step(executable, ++step, options_.optimizer);
    std::vector<double> parts_ms;
    first_steps.take([&] {
      parts_ms = device_.time_each_ms(parts);
      return std::accumulate(parts_ms.begin(), parts_ms.end(), 0.0);
    });
    if (!scales_loss) return parts_ms;
    const int64_t skipped_before = loss_scale.skipped_steps;
    loss_scale = read_loss_scale(executable, device_);
    if (loss_scale.skipped_steps > skipped_before) --step;  // a skipped step does not count
    return parts_ms;
  };
  // The verified run, over poisoned results and from the initial parameters. Without warm-ups it
  // comes last, so that the first sample is the first run.
  const auto look = [&] {
    std::optional<ModelSampler> sampler;
    if (options_.row.verify)
      sampler.emplace(executable, device_, config, inputs_.ids(config, "targets"),
                      options_.row.seed, options_.optimizer);
    executable.set_poison(options_.row.verify);
    bool is_first = step == 0;
    const auto run = [&] {
      const double begin = monotonic_s();
      run_step();
      device_.synchronize();
      if (std::exchange(is_first, false)) metrics["first_run_seconds"] = monotonic_s() - begin;
    };
    if (!sampler) {
      run();
      return;
    }
    ModelSample sample = first_sample(executable, *sampler, run);
    executable.set_poison(false);
    sample.is_drawn = options_.weights.empty();
    compare_samples(workload, scenario, sample, vanilla, record.verification);
    if (compares && !vanilla)
      record.verification.what += "; vanilla does not fit, so no comparison";
    if (workload.mode == Mode::vanilla) remember(workload, scenario, sample);
    metrics["loss"] = sample.loss;
  };
  MemoryFacts memory;
  const bool look_first = options_.row.protocol.warmups > 0;
  if (look_first) {
    begin(scenario, device_.can_record() ? "first step, choosing algorithms" : "first step");
    look();
    // Compiled runs allocate nothing later, but their launch graphs take memory: measured below.
    if (workload.mode == Mode::vanilla || ran_eagerly) {
      watch.after_run(memory);
      device_.ledger().keep_blocks();
    }
  }
  begin(scenario, "measuring");
  sample_row(record, device_, options_.row, all_series_of(scenario),
             [&](std::span<double> phase_ms) {
               const std::vector<double> parts_ms = run_step();
               phase_ms[0] = std::accumulate(parts_ms.begin(), parts_ms.end(), 0.0);
               if (phase_ms.size() == 1) return;
               phase_ms[1] = 0;
               for (size_t part = 0; part < parts_ms.size(); ++part)
                 if (stages[part].name == kBackwardStage) phase_ms[1] += parts_ms[part];
             });
  if (!memory.peak) watch.after_run(memory);
  memory.predicted_peak = executable.predicted_peak();
  if (scenario == Scenario::full_step && !options_.save_weights.empty()) {
    inputs_.save_weights(executable, config, step, options_.save_weights);
    metrics["saved_weights"] = options_.save_weights.string();
  }
  if (scenario == Scenario::forward && !options_.save_logits.empty()) {
    inputs_.save_logits(executable, config, options_.save_logits);
    metrics["saved_logits"] = options_.save_logits.string();
  }
  if (scales_loss && scenario == Scenario::full_step) {
    metrics["loss_scale"] = loss_scale.scale;
    metrics["skipped_steps"] = loss_scale.skipped_steps;
  }
  if (!look_first) {
    begin(scenario, "verifying");
    if (scenario == Scenario::full_step) inputs_.fill(executable, config);
    step = 0;
    loss_scale = {};
    look();
    metrics.erase("first_run_seconds");  // it was not the first
  }

  if (scales_loss && scenario == Scenario::forward_backward) {
    const auto run = [&] {
      for (const auto& part : parts) part();
    };
    if (const auto lost = find_underflow(executable, device_, run))
      metrics["underflow"] = to_json(*lost);
  }
  metrics.update(memory_metrics(memory));
  metrics["compile_seconds"] = executable.compile_seconds();
  metrics["first_steps"] = first_steps.json();
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
    busy.push_back({record.series.back().name, [&]() -> std::optional<double> {
                      double sum_ms = 0;  // over all micro-batches
                      for (size_t part = 0; part < parts.size(); ++part) {
                        if (stages[part].name != kBackwardStage) {
                          parts[part]();
                          continue;
                        }
                        const std::optional<double> ms = device_.busy_ms(parts[part]);
                        if (!ms) return std::nullopt;
                        sum_ms += *ms;
                      }
                      return sum_ms;
                    }});
  add_busy_times(busy, record);
  if (options_.row.verify) check_kernels(executable, workload, record.verification);
}

// Adds the failure of a scenario to the record; the others keep their figures.
void ModelStudy::fail(const ModelWorkload& workload, Scenario scenario, const Error& error,
                      Record& record) const {
  const std::optional<Status> status =
      error.kind() == ErrorKind::wrong_result ? Status::wrong : status_of(error);
  if (!status) throw error.at(label(workload) + ", " + std::string(info(scenario).name));
  if (record.status == Status::ok) record.status = *status;
  record.error += fmt::format("{}{}: {}", record.error.empty() ? "" : "; ", info(scenario).name,
                              error.message());
}

std::optional<Record> ModelStudy::run(const ModelWorkload& workload, Record described) {
  return try_row(std::move(described), label(workload), [&](Record& record) {
    record.metrics = Json::object();
    record.device_before = device_state(device_);
    for (Scenario scenario : options_.scenarios) {
      try {
        run_scenario(workload, scenario, record);
      } catch (const Error& error) {
        fail(workload, scenario, error, record);
        if (error.kind() == ErrorKind::unsupported) break;
      }
    }
    record.device_after = device_state(device_);
    judge_verification(record);
    derive_metrics(workload, options_.scenarios, device_, record);
  });
}

}  // namespace ridgeline
