#include "models/accumulate.h"

#include <fmt/format.h>

#include "base/error.h"

namespace ridgeline {

void check_micro_batches(int64_t batch_size, int64_t micro_batches) {
  if (micro_batches >= 1 && batch_size % micro_batches == 0) return;
  throw Error(ErrorKind::usage,
              fmt::format("a batch of {} has no {} equal micro-batches", batch_size, micro_batches),
              "choose a divisor of the batch size");
}

std::vector<Tensor> accumulate(Graph& whole, const Graph& part, int64_t count,
                               const std::function<bool(std::string_view)>& is_batched,
                               std::span<const Value> summed) {
  std::vector<Tensor> inputs(part.value_count());  // of the whole, by Graph::index in the part
  std::vector<Tensor> sums(summed.size());
  const std::vector<Stage> stages = part.stages();
  const auto input = [&](const Node& node, uint32_t number, int64_t micro_batch) {
    TensorType type = node.outputs[0];
    const bool is_split = is_batched(node.name);
    const int64_t rows = is_split ? type.shape[0] : 0;
    Tensor& made = inputs[node.first_value];
    if (!made) {
      if (is_split) type.shape[0] *= count;
      made = Tensor(whole, whole.input(part.input_info({number, 0}), type));
    }
    if (!is_split) return made.value();
    return slice(made, 0, micro_batch * rows, (micro_batch + 1) * rows).value();
  };
  for (int64_t micro_batch = 0; micro_batch < count; ++micro_batch) {
    std::vector<Value> became(part.value_count());
    size_t stage = 0;
    for (uint32_t number = 0; number < part.nodes().size(); ++number) {
      for (; stage < stages.size() && stages[stage].begin <= number; ++stage)
        if (micro_batch > 0 || stage > 0) whole.begin_stage(stages[stage].name);
      const Node& node = part.nodes()[number];
      whole.enter_scope(part.scope_path(node));
      Value first;
      if (node.op == Op::input) {
        first = input(node, number, micro_batch);
      } else {
        std::vector<Value> operands;
        for (Value each : node.inputs) operands.push_back(became[part.index(each)]);
        first = whole.add(node.op, std::move(operands), node.attributes);
        if (micro_batch == 0 && !node.name.empty()) whole.set_name(first, node.name);
      }
      for (uint32_t output = 0; output < node.outputs.size(); ++output) {
        const Tensor one(whole, {first.node, output});
        became[node.first_value + output] = one.value();
        for (size_t i = 0; i < summed.size(); ++i)
          if (summed[i] == Value{number, output}) sums[i] = sums[i] ? sums[i] + one : one;
      }
    }
    whole.enter_scope("");
  }
  return sums;
}

}  // namespace ridgeline
