// Runs graphs of Gemma-3 in tests: their inputs, and texts that go on from run to run.
#pragma once

#include <gtest/gtest.h>

#include "compile/executable.h"
#include "models/gemma3_cache.h"
#include "models/gemma3_oracle.h"
#include "support/run_eager.h"

namespace ridgeline::testing {

inline InterpreterInputs gemma_inputs(const Gemma3Config& config, const GemmaWeights& weights,
                                      const std::vector<int>& tokens, int64_t positions) {
  InterpreterInputs inputs(weights.begin(), weights.end());
  inputs["tokens"].assign(tokens.begin(), tokens.end());
  for (const Gemma3Layer layer : config.layers) {
    const std::string scope(table_scope(layer));
    if (inputs.contains(scope + ".cos")) continue;
    const RopeValues values = gemma3_rope_values(config, layer, positions);
    inputs[scope + ".cos"].assign(values.cos.begin(), values.cos.end());
    inputs[scope + ".sin"].assign(values.sin.begin(), values.sin.end());
  }
  return inputs;
}

// One executable of a graph with a cache. Everything that it does not bring with it lies in its own
// inputs, and stays there from run to run.
class GemmaRunner {
 public:
  GemmaRunner(Device& device, const Graph& graph, Mode mode, const InterpreterInputs& inputs)
      : device_(device),
        executable_([&](const Rewrite& forward) { return forward(graph); }, device,
                    {.mode = mode}) {
    executable_.prepare();
    EXPECT_EQ(executable_.fallback(), "");
    for (const Value value : graph.inputs()) {
      const TensorType& type = graph.type(value);
      const std::string& name = graph.node(value).name;
      const auto found = inputs.find(name);
      set(name, found != inputs.end() && name != "tokens"
                    ? found->second
                    : std::vector<double>(static_cast<size_t>(element_count(type.shape))));
      const Role role = graph.input_info(value).role;
      if (role == Role::cache || role == Role::step_scalars || name == "history")
        state_.push_back(name);
    }
  }

  void set(const std::string& name, const std::vector<double>& values) {
    upload(device_, executable_.input(name), values);
  }
  // What an earlier one has left: caches, position, history.
  void continue_from(const GemmaRunner& other) {
    for (const std::string& name : state_) set(name, other.output(name));
  }
  void run() { executable_.run(); }
  const Executable& executable() const { return executable_; }
  Executable& executable() { return executable_; }
  std::vector<double> output(const std::string& name) const {
    return elements(device_, executable_.output(name));
  }
  std::vector<double> logits_of(const std::vector<double>& tokens) {
    set("tokens", tokens);
    run();
    return output("logits");
  }

 private:
  Device& device_;
  Executable executable_;
  std::vector<std::string> state_;
};

}  // namespace ridgeline::testing
