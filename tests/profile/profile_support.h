// The tiny transformer in a mode of the ladder on a CPU, ready to be profiled.
#pragma once

#include <string>

#include "compile/executable.h"
#include "models/transformer_lm.h"
#include "runtime/cpu_device.h"
#include "support/tiny_transformer.h"

namespace ridgeline::testing {

inline Trace training_step(const TransformerConfig& config,
                           Scenario scenario = Scenario::full_step) {
  return [=](const Rewrite& forward) {
    return training_graph(config, {.scenario = scenario, .forward_pass = forward});
  };
}

// Zeros everywhere: tokens stay in their range, and nobody looks at results.
inline void fill_inputs(Executable& executable, Device& device) {
  for (Value input : executable.graph().inputs()) {
    const InputInfo& of = executable.graph().input_info(input);
    const auto fill = [&](const std::string& name) {
      const TensorView view = executable.input(name);
      const std::string zeros(static_cast<size_t>(byte_size({view.dtype, view.shape}).count), '\0');
      device.upload(view, zeros.data());
    };
    if (of.parts.empty()) fill(of.name);
    for (const InputPart& part : of.parts) fill(tensor_name(of.role, part.parameter));
  }
}

}  // namespace ridgeline::testing
