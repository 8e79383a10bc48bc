#include "runtime/executor.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/host_values.h"

namespace ridgeline {

Executor::Executor(const Graph& graph, const std::vector<Layout>& layouts, Device& device,
                   const ExecutorOptions& options)
    : graph_(graph),
      layouts_(layouts),
      device_(device),
      bound_(options.bound),
      constants_(graph.value_count()),
      storage_(graph.value_count()),
      collectives_(device, options.communicator) {
  collectives_.check(graph);
  bound_.resize(graph.value_count());
  for (const Node& node : graph.nodes())
    if (node.op == Op::constant)
      constants_[node.first_value] =
          scalar_bits(node.outputs[0].dtype, std::get<Scalar>(node.attributes.detail).value);
}

void Executor::allocate_inputs() {
  for (Value value : graph_.inputs())
    if (const uint32_t index = graph_.index(value); bound_[index] == nullptr)
      storage_[index] =
          device_.ledger().allocate(byte_size(graph_.type(value)), graph_.name(value));
}

TensorView Executor::view(Value value) const {
  const Layout& layout = layouts_[graph_.index(value)];
  const TensorType& type = graph_.type(value);
  if (graph_.node(layout.storage).op == Op::constant) {
    // A constant is a tensor with strides of 0 that broadcasts one element.
    auto* scalar = const_cast<uint64_t*>(&constants_[graph_.index(layout.storage)]);
    return {scalar, type.dtype, type.shape, Dims::filled(type.shape.rank(), 0), true};
  }
  char* base = static_cast<char*>(address(layout.storage));
  return {base + layout.offset * info(type.dtype).size, type.dtype, type.shape, layout.strides};
}

TensorView Executor::input(std::string_view name) const {
  for (Value value : graph_.inputs())
    if (graph_.node(value).name == name) return view(value);
  throw Error(ErrorKind::usage, fmt::format("the graph has no input '{}'", name));
}

TensorView Executor::output(std::string_view name) const {
  for (const Output& output : graph_.outputs()) {
    if (output.name != name) continue;
    if (!is_computed(output.value))
      throw Error(ErrorKind::usage, fmt::format("the output '{}' was not computed yet", name));
    return view(output.value);
  }
  throw Error(ErrorKind::usage, fmt::format("the graph has no output '{}'", name));
}

}  // namespace ridgeline
