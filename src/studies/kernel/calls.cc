#include "studies/kernel/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/error.h"
#include "runtime/eager_executor.h"
#include "studies/host_tensors.h"

namespace ridgeline {
namespace {

// The nodes of one problem and the names of their tensors.
struct Problem {
  Problem(const AttentionConfig& config, bool with_backward) {
    const TensorType type{config.dtype,
                          {config.batch_size, config.heads, config.seq_len, config.head_dim}};
    const AttentionSpec spec{.scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim)),
                             .mask = {.causal = config.causal},
                             .backward = config.backward};
    const Tensor q = input(graph, "q", type), k = input(graph, "k", type),
                 v = input(graph, "v", type);
    const AttentionResult result = attention(q, k, v, spec);
    forward = result.output.value();
    names = {{graph.index(q.value()), "q"},
             {graph.index(k.value()), "k"},
             {graph.index(v.value()), "v"},
             {graph.index(result.output.value()), "output"},
             {graph.index(result.log_sum_exp.value()), "log_sum_exp"}};
    if (!with_backward) return;
    const Tensor d_output = input(graph, "d_output", type);
    const AttentionGradients gradients = attention_gradient(q, k, v, result, d_output, spec);
    backward = gradients.d_q.value();
    names.insert({{graph.index(d_output.value()), "d_output"},
                  {graph.index(gradients.d_q.value()), "d_q"},
                  {graph.index(gradients.d_k.value()), "d_k"},
                  {graph.index(gradients.d_v.value()), "d_v"}});
  }

  bool is_input(uint32_t index) const {
    for (Value value : graph.inputs())
      if (graph.index(value) == index) return true;
    return false;
  }

  Graph graph;
  Value forward, backward;
  std::map<uint32_t, std::string> names;  // by Graph::index, of every tensor
};

// Copies start on their own cache lines and at the alignment of vector loads.
Bytes padded(Bytes bytes) {
  constexpr int64_t kAlignment = 256;
  return {(bytes.count + kAlignment - 1) / kAlignment * kAlignment};
}

TensorType type_at(const Graph& graph, uint32_t index) {
  for (const Node& node : graph.nodes())
    if (index >= node.first_value && index < node.first_value + node.outputs.size())
      return node.outputs[index - node.first_value];
  throw Error(ErrorKind::internal, "a tensor without a node");
}

class FusedCalls : public KernelCalls {
 public:
  FusedCalls(const AttentionConfig& config, Device& device, const KernelCallOptions& options)
      : config_(config), device_(device), problem_(config, options.backward) {
    for (const auto& [index, name] : problem_.names) {
      const TensorType type = type_at(problem_.graph, index);
      const Bytes stride = padded(byte_size(type));
      Slot& slot = slots_[index];
      slot = {type, stride, device.ledger().allocate(Bytes{stride.count * options.copies}, name)};
      if (problem_.is_input(index)) fill(index, options);
    }
    forward_ = arguments(problem_.forward, options.copies);
    if (options.backward) backward_ = arguments(problem_.backward, options.copies);
  }

  void forward(int64_t copy) override { run(problem_.forward, forward_, copy); }
  void backward(int64_t copy) override { run(problem_.backward, backward_, copy); }

  void run_poisoned(bool with_backward) override {
    for (const auto& [index, name] : problem_.names)
      if (!problem_.is_input(index)) device_.poison(view(index, 0));
    forward(0);
    if (with_backward) backward(0);
    device_.synchronize();
  }

  std::vector<double> read(const char* tensor, int64_t head) const override {
    for (const auto& [index, name] : problem_.names) {
      if (name != tensor) continue;
      const TensorView whole = view(index, 0);
      return read_values(device_,
                         sub_tensor(sub_tensor(whole, head / config_.heads), head % config_.heads));
    }
    throw Error(ErrorKind::internal, fmt::format("the kernel study has no tensor '{}'", tensor));
  }

  bool has_log_sum_exp() const override { return true; }
  bool can_be_captured() const override { return true; }

 private:
  void fill(uint32_t index, const KernelCallOptions& options) {
    fill_randomly(device_, view(index, 0), options.seed, problem_.names.at(index));
    if (options.copies == 1) return;
    std::vector<char> values(static_cast<size_t>(slots_.at(index).stride.count));
    device_.download(view(index, 0), values.data());
    for (int64_t copy = 1; copy < options.copies; ++copy)
      device_.upload(view(index, copy), values.data());
  }

  struct Slot {
    TensorType type;
    Bytes stride;  // from copy to copy
    Allocation memory;
  };
  struct Arguments {
    std::vector<TensorView> inputs, outputs;
  };

  TensorView view(uint32_t index, int64_t copy) const {
    const Slot& slot = slots_.at(index);
    return {static_cast<char*>(slot.memory.data()) + copy * slot.stride.count, slot.type.dtype,
            slot.type.shape, contiguous_strides(slot.type.shape)};
  }

  std::vector<Arguments> arguments(Value result, int64_t copies) const {
    const Node& node = problem_.graph.node(result);
    std::vector<Arguments> all(static_cast<size_t>(copies));
    for (int64_t copy = 0; copy < copies; ++copy) {
      Arguments& one = all[static_cast<size_t>(copy)];
      for (Value value : node.inputs) one.inputs.push_back(view(problem_.graph.index(value), copy));
      for (uint32_t output = 0; output < node.outputs.size(); ++output)
        one.outputs.push_back(view(node.first_value + output, copy));
    }
    return all;
  }

  void run(Value result, const std::vector<Arguments>& all, int64_t copy) {
    const Arguments& one = all[static_cast<size_t>(copy)];
    device_.run(problem_.graph.node(result), one.inputs, one.outputs);
  }

  AttentionConfig config_;
  Device& device_;
  Problem problem_;
  std::map<uint32_t, Slot> slots_;             // by Graph::index
  std::vector<Arguments> forward_, backward_;  // by copy; built once, so that a call costs little
};

class PlainCalls : public KernelCalls {
 public:
  PlainCalls(const AttentionConfig& config, Device& device, const KernelCallOptions& options)
      : device_(device),
        graph_(attention_training_graph(config, AttentionForm::plain)),
        schedule_(eager_schedule(graph_)),
        executor_(graph_, schedule_, device) {
    for (Value value : graph_.inputs())
      fill_randomly(device, executor_.input(graph_.name(value)), options.seed, graph_.name(value));
  }

  void forward(int64_t) override { executor_.run_stage(0); }
  void backward(int64_t) override { executor_.run_stage(1); }

  void run_poisoned(bool with_backward) override {
    executor_.set_poison(true);
    forward(0);
    if (with_backward) backward(0);
    device_.synchronize();
    executor_.set_poison(false);
  }

  std::vector<double> read(const char* tensor, int64_t head) const override {
    for (const Output& output : graph_.outputs())
      if (output.name == tensor)
        return read_values(device_, sub_tensor(executor_.output(tensor), head));
    return read_values(device_, sub_tensor(executor_.input(tensor), head));
  }

  bool has_log_sum_exp() const override { return false; }
  bool can_be_captured() const override { return false; }

 private:
  Device& device_;
  Graph graph_;
  Schedule schedule_;
  EagerExecutor executor_;
};

}  // namespace

std::unique_ptr<KernelCalls> fused_calls(const AttentionConfig& config, Device& device,
                                         const KernelCallOptions& options) {
  return std::make_unique<FusedCalls>(config, device, options);
}

std::unique_ptr<KernelCalls> plain_calls(const AttentionConfig& config, Device& device,
                                         const KernelCallOptions& options) {
  if (options.copies != 1)
    throw Error(ErrorKind::unsupported,
                "naive attention allocates as it runs: there are no copies to rotate over",
                "measure it hot or cold");
  return std::make_unique<PlainCalls>(config, device, options);
}

FusedBytes fused_bytes(const AttentionConfig& config, bool backward, const ScratchOf& scratch) {
  const Problem problem(config, backward);
  FusedBytes bytes;
  for (const auto& [index, name] : problem.names) {
    const Bytes size = padded(byte_size(type_at(problem.graph, index)));
    bytes.all += size;
    if (problem.is_input(index)) bytes.inputs += size;
  }
  for (const Node& node : problem.graph.nodes()) {
    if (!scratch || node.op == Op::input) continue;
    std::vector<TensorType> inputs;
    for (Value value : node.inputs) inputs.push_back(problem.graph.type(value));
    bytes.scratch = std::max(bytes.scratch, scratch(node, inputs));
  }
  return bytes;
}

}  // namespace ridgeline
