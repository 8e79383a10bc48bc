// Runs a graph on a device with given inputs and hands its outputs back as doubles.
#pragma once

#include <map>

#include "kernels/cpu/chunk.h"
#include "kernels/walk.h"
#include "runtime/cpu_device.h"
#include "runtime/eager_executor.h"
#include "support/interpreter/interpreter.h"

namespace ridgeline::testing {

inline void upload(Device& device, const TensorView& to, const std::vector<double>& values) {
  std::vector<char> bytes(values.size() * static_cast<size_t>(info(to.dtype).size));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    simd_kernels(Isa::portable)
        .store(to.dtype, &value, &bytes[i * static_cast<size_t>(info(to.dtype).size)], 1);
  }
  device.upload(to, bytes.data());
}

inline std::vector<double> elements(const TensorView& view) {
  const Walk walk = make_walk(view.shape, {&view, 1});
  std::vector<double> values(static_cast<size_t>(element_count(view.shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = load_one(view.dtype, view.data, walk.element_offset(0, static_cast<int64_t>(i)));
  return values;
}

// The same of a tensor on a device: all that lies between its first and its last element is
// fetched.
inline std::vector<double> elements(const Device& device, TensorView view) {
  if (view.host_scalar) return elements(view);
  int64_t span = 1;
  for (int axis = 0; axis < view.shape.rank(); ++axis)
    span += (view.shape[axis] - 1) * view.strides[axis];
  std::vector<char> bytes(static_cast<size_t>(span) * static_cast<size_t>(info(view.dtype).size));
  device.download({view.data, view.dtype, {span}, {1}}, bytes.data());
  view.data = bytes.data();
  return elements(view);
}

inline std::map<std::string, std::vector<double>> run_eager(const Graph& graph,
                                                            const InterpreterInputs& inputs,
                                                            Device& device) {
  const Schedule schedule = eager_schedule(graph);
  EagerExecutor executor(graph, schedule, device);
  for (const auto& [name, values] : inputs) upload(device, executor.input(name), values);
  executor.run_all();
  std::map<std::string, std::vector<double>> outputs;
  for (const Output& output : graph.outputs())
    outputs[output.name] = elements(device, executor.output(output.name));
  return outputs;
}

}  // namespace ridgeline::testing
