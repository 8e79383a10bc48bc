#include "runtime/eager_executor.h"

namespace ridgeline {

EagerExecutor::EagerExecutor(const Graph& graph, const Schedule& schedule, Device& device,
                             const ExecutorOptions& options)
    : Executor(graph, schedule.layouts, device, options),
      schedule_(schedule),
      names_(graph.value_count()) {
  for (uint32_t number = 0; number < graph.nodes().size(); ++number)
    for (uint32_t output = 0; output < graph.nodes()[number].outputs.size(); ++output)
      names_[graph.index({number, output})] = graph.name({number, output});
  allocate_inputs();
}

void EagerExecutor::allocate(uint32_t storage, const TensorType& type) {
  if (bound_[storage] == nullptr)
    storage_[storage] = device_.ledger().allocate(byte_size(type), names_[storage]);
}

void* EagerExecutor::address(Value storage) const {
  const uint32_t index = graph_.index(storage);
  return bound_[index] != nullptr ? bound_[index] : storage_[index].data();
}

bool EagerExecutor::is_computed(Value output) const {
  const Value storage = layouts_[graph_.index(output)].storage;
  return address(storage) != nullptr || graph_.node(storage).op == Op::constant;
}

void EagerExecutor::run_step(const Step& step) {
  const Node& node = graph_.nodes()[step.node];
  for (uint32_t collective : step.joins)
    if (collective != step.node) collectives_.join(collective);
  if (runs_kernel(graph_, layouts_, step.node)) {
    const bool updates = is_update(node.op);  // results are in the memory of inputs
    inputs_.clear();
    outputs_.clear();
    for (uint32_t output = 0; output < node.outputs.size() && !updates; ++output)
      if (owns_memory(graph_, layouts_, {step.node, output}))
        allocate(node.first_value + output, node.outputs[output]);
    for (Value input : node.inputs) inputs_.push_back(view(input));
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      outputs_.push_back(view({step.node, output}));
    for (uint32_t output = 0; poison_ && !updates && output < node.outputs.size(); ++output)
      if (owns_memory(graph_, layouts_, {step.node, output})) device_.poison(outputs_[output]);
    if (is_collective(node.op))
      start_collective(step);
    else if (observer_)
      run_observed(step.node);
    else
      device_.run(node, inputs_, outputs_);
  }
  for (Value value : step.releases) storage_[graph_.index(value)] = {};
}

void EagerExecutor::start_collective(const Step& step) {
  const Node& node = graph_.nodes()[step.node];
  collectives_.start(step.node, node, graph_.name({step.node, 0}), inputs_[0], outputs_[0]);
  for (uint32_t collective : step.joins)
    if (collective == step.node) collectives_.join(collective);
}

void EagerExecutor::run_observed(uint32_t node) {
  const KernelRun run{
      .graph = graph_, .node = node, .inputs = inputs_, .outputs = outputs_, .number = node};
  observer_->before(run);
  device_.run(graph_.nodes()[node], inputs_, outputs_);
  observer_->after(run);
}

void EagerExecutor::run_stages(size_t begin, size_t end) {
  try {
    if (begin == 0) {
      collectives_.begin_run();
      release();
    }
    for (size_t stage = begin; stage < end; ++stage) {
      const Stage& range = schedule_.stages[stage];
      for (uint32_t step = range.begin; step < range.end; ++step) run_step(schedule_.steps[step]);
    }
    collectives_.join_all();
  } catch (...) {
    collectives_.drop_all();
    release();
    throw;
  }
}

void EagerExecutor::run_stage(size_t stage) {
  run_stages(stage, stage + 1);
}

void EagerExecutor::run_all() {
  run_stages(0, schedule_.stages.size());
}

void EagerExecutor::release() {
  for (uint32_t number = 0; number < graph_.nodes().size(); ++number) {
    const Node& node = graph_.nodes()[number];
    if (node.op == Op::input) continue;
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      storage_[node.first_value + output] = {};
  }
}

}  // namespace ridgeline
