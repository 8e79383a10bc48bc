#include "models/accumulate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace ridgeline {
namespace {

class Accumulation {
 public:
  Accumulation(Graph& whole, const Graph& part, int64_t count,
               const std::function<bool(std::string_view)>& is_batched,
               std::span<const Value> summed)
      : whole_(whole),
        part_(part),
        count_(count),
        is_batched_(is_batched),
        summed_(summed),
        inputs_(part.value_count()),
        sums_(summed.size()) {}

  std::vector<Tensor> run() {
    for (int64_t number = 0; number < count_; ++number) append(number);
    return sums_;
  }

 private:
  void append(int64_t micro_batch) {
    std::vector<Value> became(part_.value_count());
    const std::vector<Stage> stages = part_.stages();
    size_t stage = 0;
    for (uint32_t number = 0; number < part_.nodes().size(); ++number) {
      for (; stage < stages.size() && stages[stage].begin <= number; ++stage)
        if (micro_batch > 0 || stage > 0) whole_.begin_stage(stages[stage].name);
      const Node& node = part_.nodes()[number];
      whole_.enter_scope(part_.scope_path(node));
      const Value first = node.op == Op::input ? input(number, micro_batch) : copy(node, became);
      if (micro_batch == 0 && node.op != Op::input && !node.name.empty())
        whole_.set_name(first, node.name);
      for (uint32_t output = 0; output < node.outputs.size(); ++output) {
        const Value value{first.node, output};
        became[node.first_value + output] = value;
        add_up({number, output}, value);
      }
    }
    whole_.enter_scope("");
  }

  Value copy(const Node& node, const std::vector<Value>& became) {
    std::vector<Value> inputs;
    for (Value each : node.inputs) inputs.push_back(became[part_.index(each)]);
    return whole_.add(node.op, std::move(inputs), node.attributes);
  }

  Value input(uint32_t number, int64_t micro_batch) {
    const Node& node = part_.nodes()[number];
    const bool is_batched = is_batched_(node.name);
    TensorType type = node.outputs[0];
    const int64_t rows = is_batched ? type.shape[0] : 0;
    Tensor& made = inputs_[node.first_value];
    if (!made) {
      if (is_batched) type.shape[0] *= count_;
      made = Tensor(whole_, whole_.input(part_.input_info({number, 0}), type));
    }
    if (!is_batched) return made.value();
    return slice(made, 0, micro_batch * rows, (micro_batch + 1) * rows).value();
  }

  void add_up(Value of_part, Value value) {
    for (size_t i = 0; i < summed_.size(); ++i) {
      if (summed_[i] != of_part) continue;
      const Tensor one(whole_, value);
      sums_[i] = sums_[i] ? sums_[i] + one : one;
    }
  }

  Graph& whole_;
  const Graph& part_;
  const int64_t count_;
  const std::function<bool(std::string_view)>& is_batched_;
  std::span<const Value> summed_;
  std::vector<Tensor> inputs_;  // of the whole, by Graph::index in the part
  std::vector<Tensor> sums_;
};

}  // namespace

void check_micro_batches(int64_t batch_size, int64_t micro_batches) {
  if (micro_batches >= 1 && batch_size % micro_batches == 0) return;
  throw Error(ErrorKind::usage,
              fmt::format("a batch of {} has no {} equal micro-batches", batch_size, micro_batches),
              "choose a divisor of the batch size");
}

std::vector<Tensor> accumulate(Graph& whole, const Graph& part, int64_t count,
                               const std::function<bool(std::string_view)>& is_batched,
                               std::span<const Value> summed) {
  return Accumulation(whole, part, count, is_batched, summed).run();
}

}  // namespace ridgeline
