#include "plan/fused_kernel.h"

#include <algorithm>

namespace ridgeline {

bool FusedKernel::has_folds() const {
  return std::any_of(steps.begin(), steps.end(),
                     [](const FusedStep& step) { return step.kind == FusedStep::Kind::fold; });
}

int64_t FusedWalk::rows() const {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

FusedWalk make_walk(const FusedKernel& kernel) {
  const int rank = kernel.domain.rank();
  const bool keeps_columns = kernel.kind == FusedKind::column || kernel.has_folds();
  // All tensors, results after inputs; the results of a column kernel do not walk over rows.
  std::vector<const Strides*> tensors;
  for (const FusedOperand& input : kernel.inputs) tensors.push_back(&input.strides);
  if (kernel.kind == FusedKind::row)
    for (const FusedResult& result : kernel.results) tensors.push_back(&result.to.strides);

  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> steps(tensors.size());
  const int merging = keeps_columns ? rank - 1 : rank;  // axes that may be merged
  for (int axis = 0; axis < merging; ++axis) {
    const int64_t size = kernel.domain[axis];
    if (size == 1) continue;
    bool merges = !sizes.empty();
    for (size_t t = 0; merges && t < tensors.size(); ++t)
      merges = steps[t].back() == (*tensors[t])[axis] * size;
    if (merges) {
      sizes.back() *= size;
    } else {
      sizes.push_back(size);
    }
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (merges) {
        steps[t].back() = (*tensors[t])[axis];
      } else {
        steps[t].push_back((*tensors[t])[axis]);
      }
    }
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    for (std::vector<int64_t>& of : steps) of.push_back(0);
  }
  FusedWalk walk;
  std::vector<FusedWalk::Steps> split;
  if (keeps_columns) {
    walk.columns = kernel.columns();
    for (size_t t = 0; t < tensors.size(); ++t) split.push_back({steps[t], tensors[t]->back()});
  } else {
    walk.columns = sizes.back();
    sizes.pop_back();
    for (size_t t = 0; t < tensors.size(); ++t) {
      const int64_t column = steps[t].back();
      steps[t].pop_back();
      split.push_back({steps[t], column});
    }
    if (sizes.empty()) {
      sizes.push_back(1);
      for (FusedWalk::Steps& of : split) of.rows.push_back(0);
    }
  }
  walk.sizes = std::move(sizes);
  const auto inputs = static_cast<std::ptrdiff_t>(kernel.inputs.size());
  walk.inputs.assign(split.begin(), split.begin() + inputs);
  walk.results.assign(split.begin() + inputs, split.end());
  for (const FusedResult& result : kernel.results)
    if (kernel.kind == FusedKind::column)
      walk.results.push_back(
          {std::vector<int64_t>(walk.sizes.size(), 0), result.to.strides.back()});
  return walk;
}

namespace {

std::vector<int> pairs_of(const std::vector<const FusedOperand*>& operands,
                          const std::vector<FusedWalk::Steps>& steps) {
  std::vector<int> partner(operands.size(), kAlone);
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t j = 0; j < operands.size(); ++j) {
      const FusedOperand &first = *operands[i], &second = *operands[j];
      const bool fit = !first.is_position && !second.is_position &&
                       first.storage == second.storage && first.dtype == second.dtype &&
                       Interleaving::is_first(first) && second.offset == first.offset + 1 &&
                       steps[i].column == 2 && steps[j].column == 2 &&
                       steps[i].rows == steps[j].rows;
      if (!fit || partner[i] != kAlone || partner[j] != kAlone) continue;
      partner[i] = static_cast<int>(j);
      partner[j] = static_cast<int>(i);
    }
  return partner;
}

}  // namespace

// Kernels without folds only: the others keep what they load from pass to pass.
Interleaving find_interleaving(const FusedKernel& kernel, const FusedWalk& walk) {
  std::vector<const FusedOperand*> inputs, results;
  for (const FusedOperand& input : kernel.inputs) inputs.push_back(&input);
  for (const FusedResult& result : kernel.results) results.push_back(&result.to);
  if (kernel.kind == FusedKind::column || kernel.has_folds())
    return {std::vector<int>(inputs.size(), kAlone), std::vector<int>(results.size(), kAlone)};
  return {pairs_of(inputs, walk.inputs), pairs_of(results, walk.results)};
}

int64_t column_parts(const FusedKernel& kernel) {
  if (kernel.kind != FusedKind::column) return 0;
  constexpr int64_t kMostParts = 128;
  constexpr int64_t kFewestRows = 32;  // of a part
  return std::clamp<int64_t>(kernel.rows() / kFewestRows, 1, kMostParts);
}

Bytes fused_scratch(const FusedKernel& kernel) {
  if (kernel.kind != FusedKind::column) return {};
  const auto folds = static_cast<int64_t>(kernel.results.size());
  return {column_parts(kernel) * folds * kernel.columns() * int64_t{sizeof(float)}};
}

}  // namespace ridgeline
