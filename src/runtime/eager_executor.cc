#include "runtime/eager_executor.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/host_values.h"

namespace ridgeline {

EagerExecutor::EagerExecutor(const Graph& graph, const Schedule& schedule, Device& device,
                             const ExecutorOptions& options)
    : graph_(graph),
      schedule_(schedule),
      device_(device),
      storage_(graph.value_count()),
      bound_(options.bound),
      constants_(graph.value_count()),
      names_(graph.value_count()),
      collectives_(device, options.communicator) {
  collectives_.check(graph);
  for (uint32_t number = 0; number < graph.nodes().size(); ++number)
    for (uint32_t output = 0; output < graph.nodes()[number].outputs.size(); ++output)
      names_[graph.index({number, output})] = graph.name({number, output});
  bound_.resize(graph.value_count());
  for (Value value : graph.inputs()) allocate(graph.index(value), graph.type(value));
  for (const Node& node : graph.nodes())
    if (node.op == Op::constant)
      constants_[node.first_value] =
          scalar_bits(node.outputs[0].dtype, std::get<Scalar>(node.attributes.detail).value);
}

void EagerExecutor::allocate(uint32_t storage, const TensorType& type) {
  if (bound_[storage] == nullptr)
    storage_[storage] = device_.ledger().allocate(byte_size(type), names_[storage]);
}

void* EagerExecutor::address(uint32_t storage) const {
  return bound_[storage] != nullptr ? bound_[storage] : storage_[storage].data();
}

TensorView EagerExecutor::view(Value value) const {
  const Layout& layout = schedule_.layouts[graph_.index(value)];
  const TensorType& type = graph_.type(value);
  const uint32_t storage = graph_.index(layout.storage);
  if (graph_.node(layout.storage).op == Op::constant) {
    // A constant is a tensor with strides of 0 that broadcasts one element.
    auto* scalar = const_cast<uint64_t*>(&constants_[storage]);
    return {scalar, type.dtype, type.shape, Dims::filled(type.shape.rank(), 0), true};
  }
  char* base = static_cast<char*>(address(storage));
  return {base + layout.offset * info(type.dtype).size, type.dtype, type.shape, layout.strides};
}

TensorView EagerExecutor::input(std::string_view name) const {
  for (Value value : graph_.inputs())
    if (graph_.node(value).name == name) return view(value);
  throw Error(ErrorKind::usage, fmt::format("the graph has no input '{}'", name));
}

TensorView EagerExecutor::output(std::string_view name) const {
  for (const Output& output : graph_.outputs()) {
    if (output.name != name) continue;
    const Value storage = schedule_.layouts[graph_.index(output.value)].storage;
    if (address(graph_.index(storage)) == nullptr && graph_.node(storage).op != Op::constant)
      throw Error(ErrorKind::usage, fmt::format("the output '{}' was not computed yet", name));
    return view(output.value);
  }
  throw Error(ErrorKind::usage, fmt::format("the graph has no output '{}'", name));
}

void EagerExecutor::run_step(const Step& step) {
  const Node& node = graph_.nodes()[step.node];
  for (uint32_t collective : step.joins)
    if (collective != step.node) collectives_.join(collective);
  if (runs_kernel(graph_, schedule_.layouts, step.node)) {
    const bool updates = is_update(node.op);  // results are in the memory of inputs
    inputs_.clear();
    outputs_.clear();
    for (uint32_t output = 0; output < node.outputs.size() && !updates; ++output)
      if (owns_memory(graph_, schedule_.layouts, {step.node, output}))
        allocate(node.first_value + output, node.outputs[output]);
    for (Value input : node.inputs) inputs_.push_back(view(input));
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      outputs_.push_back(view({step.node, output}));
    for (uint32_t output = 0; poison_ && !updates && output < node.outputs.size(); ++output)
      if (owns_memory(graph_, schedule_.layouts, {step.node, output}))
        device_.poison(outputs_[output]);
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
