#include "studies/attention_executable.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "passes/decompose.h"
#include "passes/flash.h"
#include "passes/simplify.h"
#include "studies/device_facts.h"
#include "studies/generated_code.h"

namespace ridgeline {
namespace {

std::string what_was_recognised(const FlashReport& report) {
  std::string text;
  for (const std::string& node : report.found)
    text += fmt::format("flash: '{}' became one attention node\n", node);
  for (const FlashRefusal& refusal : report.refusals)
    text += fmt::format("flash: '{}' stayed as it was: {}\n", refusal.node, refusal.reason);
  return text;
}

}  // namespace

AttentionExecutable::AttentionExecutable(const AttentionWorkload& workload, const Device& device) {
  const double begin = monotonic_s();
  const AttentionImplementation& how = find_attention_implementation(workload.implementation);
  const AttentionConfig& config = workload.config;
  if (how.compiled) {
    FlashReport report;
    const auto recognise = [&](const Graph& forward) {
      return flash(forward, {.backward = config.backward}, &report);
    };
    graph_ = simplify(decompose(attention_training_graph(config, how.form, recognise)));
    recognised_ = what_was_recognised(report);
    plan_ = make_plan(graph_, {.scratch = scratch_of(device)});
  } else {
    graph_ = attention_training_graph(config, how.form);
    plan_eagerly(device);
  }
  traced_seconds_ = monotonic_s() - begin;
}

void AttentionExecutable::plan_eagerly(const Device& device) {
  schedule_ = eager_schedule(graph_);
  profile_ = memory(graph_, *schedule_, scratch_of(device));
}

Bytes AttentionExecutable::predicted_peak() const {
  return profile_ ? profile_->peak : plan_->peak();
}

Bytes AttentionExecutable::predicted_before_backward() const {
  return profile_ ? profile_->stage_end[0] : plan_->inputs + plan_->arena;
}

Cost AttentionExecutable::cost(size_t stage) const {
  if (schedule_) return stage_cost(graph_, graph_.stages()[stage]);
  Cost sum;
  for (size_t i = plan_->stages[stage].begin; i < plan_->stages[stage].end; ++i)
    sum += plan_->kernels[i].cost;
  return sum;
}

std::string AttentionExecutable::explain(const Device& device) const {
  if (!plan_)
    throw Error(ErrorKind::usage, "what runs eagerly has no plan to explain",
                "use --impl compiled");
  return recognised_ + ridgeline::explain(graph_, *plan_) + generated_functions(*plan_, device);
}

void AttentionExecutable::prepare(Device& device) {
  release();
  if (plan_) {
    compiled_.emplace(graph_, *plan_, device);
    if (compile_seconds_ == 0) compile_seconds_ = compiled_->compile_seconds();
  } else {
    eager_.emplace(graph_, *schedule_, device);
  }
  if (!fallback().empty()) plan_eagerly(device);
}

void AttentionExecutable::release() {
  compiled_.reset();
  eager_.reset();
}

TensorView AttentionExecutable::input(std::string_view name) const {
  return plan_ ? compiled_->input(name) : eager_->input(name);
}

TensorView AttentionExecutable::output(std::string_view name) const {
  return plan_ ? compiled_->output(name) : eager_->output(name);
}

void AttentionExecutable::set_poison(bool poison) {
  if (plan_)
    compiled_->set_poison(poison);
  else
    eager_->set_poison(poison);
}

void AttentionExecutable::set_observer(KernelObserver* observer) {
  if (plan_)
    compiled_->set_observer(observer);
  else
    eager_->set_observer(observer);
}

void AttentionExecutable::run_stage(size_t stage) {
  if (plan_)
    compiled_->run_stage(stage);
  else
    eager_->run_stage(stage);
}

double AttentionExecutable::compile_seconds() const {
  return traced_seconds_ + compile_seconds_;
}

int64_t AttentionExecutable::launches() const {
  if (!schedule_) return static_cast<int64_t>(plan_->kernels.size());
  int64_t kernels = 0;
  for (const Step& step : schedule_->steps)
    kernels += runs_kernel(graph_, schedule_->layouts, step.node) ? 1 : 0;
  return kernels;
}

std::string AttentionExecutable::fallback() const {
  return compiled_ ? compiled_->fallback() : std::string();
}

}  // namespace ridgeline
