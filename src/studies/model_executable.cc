#include "studies/model_executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "plan/recompute.h"
#include "runtime/compiled_executor.h"
#include "runtime/eager_executor.h"
#include "runtime/epilogue_choice.h"
#include "studies/attention_workload.h"
#include "studies/device_facts.h"
#include "studies/generated_code.h"
#include "studies/model_graph.h"

namespace ridgeline {

struct ModelExecutable::State {
  ModelGraph model;
  std::optional<Schedule> schedule;  // vanilla, or what compiled fell back to
  std::optional<MemoryProfile> profile;
  std::optional<Plan> plan;  // compiled
  size_t recomputed = 0;     // results that are computed again to fit the budget
  std::optional<EagerExecutor> eager;
  std::optional<CompiledExecutor> compiled;
};

ModelExecutable::ModelExecutable(const ModelWorkload& workload, Scenario scenario, Device& device,
                                 ModelExecutableOptions options)
    : scenario_(scenario),
      device_(device),
      options_(std::move(options)),
      state_(std::make_unique<State>()) {
  const double start = monotonic_s();
  state_->model = model_graph(workload, scenario,
                              {.optimizer = options_.optimizer,
                               .backward = backward_algorithm({}, device.facts()),
                               .stage = options_.stage});
  const Graph& traced = state_->model.graph;
  find_parts();
  begin("plan");
  if (workload.mode == ModelMode::compiled) {
    FittedPlan fitted = plan_within(traced,
                                    {.scratch = scratch_of(device),
                                     .epilogue = epilogue_chooser(device),
                                     .overlap = device.can_record(),
                                     .early_updates = true},
                                    options_.budget.value_or(device.ledger().budget()));
    if (fitted.graph) state_->model.graph = std::move(*fitted.graph);
    state_->plan = std::move(fitted.plan);
    state_->recomputed = fitted.recomputed;
    predicted_peak_ = state_->plan->peak();
    launches_ = static_cast<int64_t>(state_->plan->kernels.size());
    eager_launches_ = state_->plan->eager_launches;
  } else {
    plan_eagerly();
  }
  traced_seconds_ = monotonic_s() - start;
}

ModelExecutable::~ModelExecutable() = default;

void ModelExecutable::plan_eagerly() {
  state_->schedule = eager_schedule(graph());
  state_->profile = ridgeline::memory(graph(), *state_->schedule, scratch_of(device_));
  predicted_peak_ = state_->profile->peak;
  launches_ = 0;
  for (const Step& step : state_->schedule->steps)
    launches_ += runs_kernel(graph(), state_->schedule->layouts, step.node) ? 1 : 0;
  eager_launches_ = launches_;
}

void ModelExecutable::begin(const char* stage) const {
  if (options_.stage) options_.stage(stage);
}

const Graph& ModelExecutable::graph() const {
  return state_->model.graph;
}

std::string ModelExecutable::explain(bool timed) const {
  if (!state_->plan)
    throw Error(ErrorKind::usage, "a vanilla model has no plan to explain", "use --impl compiled");
  const ModelGraph& model = state_->model;
  std::string text = fmt::format("flash: {} attentions became one node each\n", model.flash_nodes);
  for (const std::string& refusal : model.flash_refused)
    text += fmt::format("  stayed as it was: {}\n", refusal);
  if (state_->recomputed > 0) {
    const Bytes budget = options_.budget.value_or(device_.ledger().budget());
    text += fmt::format(
        "recompute: {} results are computed again in backward {} {}\n", state_->recomputed,
        state_->plan->peak() <= budget ? "to fit" : "and yet it does not fit", to_string(budget));
  }
  std::vector<double> times;
  if (timed && state_->compiled) times = state_->compiled->kernel_ms();
  return text + ridgeline::explain(model.graph, *state_->plan, times) +
         generated_functions(*state_->plan, device_);
}

ModelMemory ModelExecutable::memory() const {
  ModelMemory memory = state_->profile ? account_model(graph(), *state_->schedule, *state_->profile)
                                       : account_model(graph(), *state_->plan);
  memory.recomputed = state_->recomputed;
  return memory;
}

double ModelExecutable::roofline_seconds(const Peaks& peaks) const {
  const auto least = [&](const Cost& cost) {
    const double computing = peaks.flops_per_s ? cost.flops / *peaks.flops_per_s : 0;
    const double moving = peaks.bytes_per_s ? cost.bytes / *peaks.bytes_per_s : 0;
    return std::max(computing, moving);
  };
  double seconds = 0;
  if (state_->plan) {
    for (const PlannedKernel& kernel : state_->plan->kernels) seconds += least(kernel.cost);
  } else {
    for (const Cost& cost : node_costs(graph())) seconds += least(cost);
  }
  return seconds;
}

std::vector<Cost> ModelExecutable::stage_costs() const {
  std::vector<Cost> costs;
  for (const Stage& stage : graph().stages()) costs.push_back(stage_cost(graph(), stage));
  if (state_->profile) return costs;
  for (Cost& cost : costs) cost = {.macs = cost.macs};  // products stay what they are
  for (const PlannedKernel& kernel : state_->plan->kernels) {
    Cost& cost = costs[kernel.group.stage];
    cost.flops += kernel.cost.flops;
    cost.bytes += kernel.cost.bytes;
  }
  return costs;
}

void ModelExecutable::prepare() {
  if (state_->plan) begin("kernels");
  if (state_->plan)
    state_->compiled.emplace(graph(), *state_->plan, device_);
  else
    state_->eager.emplace(graph(), *state_->schedule, device_);
  if (!fallback().empty()) plan_eagerly();
}

void ModelExecutable::find_parts() {
  for (Value value : graph().inputs()) {
    const InputInfo& input = graph().input_info(value);
    if (input.parts.empty()) parts_[input.name] = {input.name, 0, graph().type(value).shape[0]};
    int64_t begin = 0;
    for (const InputPart& part : input.parts) {
      parts_[tensor_name(input.role, part.parameter)] = {input.name, begin, begin + part.rows};
      begin += part.rows;
    }
  }
}

bool ModelExecutable::has_input(std::string_view name) const {
  return parts_.contains(std::string(name));
}

TensorView ModelExecutable::input(std::string_view name) const {
  const auto found = parts_.find(std::string(name));
  if (found == parts_.end())
    throw Error(ErrorKind::usage, fmt::format("the model has no input '{}'", name));
  const Part& part = found->second;
  TensorView view =
      state_->plan ? state_->compiled->input(part.input) : state_->eager->input(part.input);
  view.data = static_cast<char*>(view.data) + part.begin * view.strides[0] * info(view.dtype).size;
  view.shape[0] = part.end - part.begin;
  return view;
}

TensorView ModelExecutable::output(std::string_view name) const {
  return state_->plan ? state_->compiled->output(name) : state_->eager->output(name);
}

void ModelExecutable::set_poison(bool poison) {
  if (state_->plan)
    state_->compiled->set_poison(poison);
  else
    state_->eager->set_poison(poison);
}

void ModelExecutable::set_observer(KernelObserver* observer) {
  if (state_->plan)
    state_->compiled->set_observer(observer);
  else
    state_->eager->set_observer(observer);
}

size_t ModelExecutable::parts() const {
  return scenario_ == Scenario::forward_backward ? graph().stages().size() : 1;
}

void ModelExecutable::run_part(size_t part) {
  const bool whole = parts() == 1;
  const auto run_on = [&](auto& executor) {
    whole ? executor.run_all() : executor.run_stage(part);
  };
  if (state_->plan)
    run_on(*state_->compiled);
  else
    run_on(*state_->eager);
}

double ModelExecutable::compile_seconds() const {
  return traced_seconds_ + (state_->compiled ? state_->compiled->compile_seconds() : 0);
}

std::string ModelExecutable::fallback() const {
  return state_->compiled ? state_->compiled->fallback() : std::string();
}

}  // namespace ridgeline
