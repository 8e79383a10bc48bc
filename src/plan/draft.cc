#include "plan/draft.h"

#include <algorithm>

namespace ridgeline {

size_t SeenValueHash::operator()(const SeenValue& seen) const {
  size_t all = seen.value;
  const auto mix = [&](int64_t x) { all = (all ^ static_cast<size_t>(x)) * 0x9e3779b97f4a7c15ull; };
  mix(seen.offset);
  for (int64_t stride : seen.strides) mix(stride);
  return all ^ (all >> 29);
}

Draft::Draft(GroupKind kind, uint32_t stage, Shape domain) {
  group.kind = kind;
  group.stage = stage;
  group.kernel.kind = kind == GroupKind::column ? FusedKind::column : FusedKind::row;
  group.kernel.domain = domain;
  all_ = see_through(contiguous(domain), {})->strides;
  Shape rows = domain;
  rows.back() = 1;
  rows_ = see_through(contiguous(rows), {})->strides;
}

std::optional<uint32_t> Draft::find(const SeenValue& seen) const {
  const auto found = steps_.find(seen);
  if (found == steps_.end()) return std::nullopt;
  return found->second;
}

void Draft::name_step(const SeenValue& seen, uint32_t step) {
  if (!steps_.emplace(seen, step).second) return;
  named_.emplace_back(seen, step);
  ++mentioned_[seen.value];
}

uint32_t Draft::add(FusedStep step) {
  group.kernel.steps.push_back(std::move(step));
  return static_cast<uint32_t>(group.kernel.steps.size() - 1);
}

uint32_t Draft::add_input(FusedOperand operand, Value value) {
  FusedStep step{.kind = FusedStep::Kind::load,
                 .dtype = operand.dtype,
                 .operand = static_cast<uint32_t>(group.kernel.inputs.size()),
                 .value = value};
  group.kernel.inputs.push_back(std::move(operand));
  return add(std::move(step));
}

bool Draft::covers_all(const SeenValue& seen) const {
  return seen.offset == 0 && seen.strides == all_;
}

bool Draft::covers_rows(const SeenValue& seen) const {
  return seen.offset == 0 && seen.strides == rows_;
}

void Draft::roll_back(const Mark& mark) {
  while (named_.size() > mark.named) {
    const SeenValue& seen = named_.back().first;
    steps_.erase(seen);
    if (--mentioned_[seen.value] == 0) mentioned_.erase(seen.value);
    named_.pop_back();
  }
  group.kernel.steps.resize(mark.steps);
  group.kernel.inputs.resize(mark.inputs);
}

namespace {

void prune(FusedKernel& kernel) {
  std::vector<bool> needed(kernel.steps.size());
  for (const FusedResult& result : kernel.results) needed[result.step] = true;
  for (size_t i = kernel.steps.size(); i-- > 0;)
    if (needed[i])
      for (uint32_t input : kernel.steps[i].inputs) needed[input] = true;

  std::vector<FusedStep> steps;
  std::vector<FusedOperand> inputs;
  std::vector<uint32_t> moved(kernel.steps.size());
  for (size_t i = 0; i < kernel.steps.size(); ++i) {
    if (!needed[i]) continue;
    FusedStep& step = kernel.steps[i];
    for (uint32_t& input : step.inputs) input = moved[input];
    if (step.kind == FusedStep::Kind::load) {
      inputs.push_back(std::move(kernel.inputs[step.operand]));
      step.operand = static_cast<uint32_t>(inputs.size() - 1);
    }
    moved[i] = static_cast<uint32_t>(steps.size());
    steps.push_back(std::move(step));
  }
  for (FusedResult& result : kernel.results) result.step = moved[result.step];
  kernel.steps = std::move(steps);
  kernel.inputs = std::move(inputs);
}

std::string kernel_name(const FusedKernel& kernel) {
  constexpr size_t kLongest = 56;
  std::string name;
  std::vector<Op> seen;
  for (const FusedStep& step : kernel.steps) {
    if (step.kind != FusedStep::Kind::compute && step.kind != FusedStep::Kind::fold) continue;
    if (std::find(seen.begin(), seen.end(), step.op) != seen.end()) continue;
    seen.push_back(step.op);
    const std::string_view word = info(step.op).name;
    if (name.size() + word.size() + 1 > kLongest) break;
    name += (name.empty() ? "" : "_") + std::string(word);
  }
  if (name.empty()) name = "copy";
  return (kernel.kind == FusedKind::column ? "columns_"
          : kernel.has_folds()             ? "rows_"
                                           : "each_") +
         name;
}

}  // namespace

void complete(Group& group) {
  prune(group.kernel);
  group.kernel.name = kernel_name(group.kernel);
  group.reads.clear();
  group.writes.clear();
  if (group.kernel.product) {
    group.kernel.name = "product_" + group.kernel.name.substr(group.kernel.name.find('_') + 1);
    add_once(group.reads, group.kernel.product->left.storage);
    add_once(group.reads, group.kernel.product->right.storage);
  }
  for (const FusedOperand& input : group.kernel.inputs)
    if (!input.is_position && !group.kernel.is_computed(input))
      add_once(group.reads, input.storage);
  for (const FusedResult& result : group.kernel.results) add_once(group.writes, result.to.storage);
}

}  // namespace ridgeline
