// Graphs of Gemma-3 in tests: whole sequences without a cache, inputs, and texts that go on from
// run to run.
#pragma once

#include <gtest/gtest.h>

#include "compile/executable.h"
#include "models/gemma3_cache.h"
#include "models/gemma3_oracle.h"
#include "support/run_eager.h"

namespace ridgeline::testing {

struct Gemma3Options {
  int64_t batch_size = 1;
  int64_t tokens = 128;
  int64_t positions = 0;      // of the tables, from 0 on; 0: one per token
  DType dtype = DType::bf16;  // of parameters, tables and activations
  AttentionForm attention = AttentionForm::plain;
  bool last_only = false;
};

// A whole sequence at positions 0, 1, ..., without a cache: what models with one must agree with.
// Output: "logits".
inline Graph gemma3_graph(const Gemma3Config& config, const Gemma3Options& options) {
  Graph graph;
  const TensorType ids{DType::i32, {options.batch_size, options.tokens}};
  const int64_t positions = options.positions == 0 ? options.tokens : options.positions;
  const Gemma3Inputs inputs = gemma3_inputs(graph, config, ids, options.dtype, positions);
  Gemma3Tables tables = inputs.tables;
  for (Tensor* table :
       {&tables.full.cos, &tables.full.sin, &tables.sliding.cos, &tables.sliding.sin})
    if (*table && positions > options.tokens) *table = slice(*table, 0, 0, options.tokens);
  const Tensor logits = gemma3_logits(
      config, inputs, tables, gemma3_self_attention(config, options.attention), options.last_only);
  graph.mark_output("logits", logits.value());
  verify(graph);
  return graph;
}

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
