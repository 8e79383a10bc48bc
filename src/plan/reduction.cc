#include "plan/reduction.h"

namespace ridgeline {
namespace {

constexpr int64_t kLongRow = 1 << 15;  // rows longer than this,
constexpr int64_t kFewRows = 16;       // if there are so few, leave most of a machine idle
constexpr int64_t kNarrowest = 4;      // columns that are worth vectors

Shape with_trailing_axes_merged(const Shape& shape, int first) {
  Shape merged;
  for (int axis = 0; axis < first; ++axis) merged.push_back(shape[axis]);
  merged.push_back(1);
  for (int axis = first; axis < shape.rank(); ++axis) merged.back() *= shape[axis];
  return merged;
}

}  // namespace

Reduction classify_reduction(const Node& node, const Shape& input) {
  std::array<bool, kMaxRank> is_folded{};
  for (int64_t axis : std::get<Axes>(node.attributes.detail).axes)
    is_folded[static_cast<size_t>(axis)] = true;
  // Axes of size 1 belong to whatever is beside them.
  int first_of_run = input.rank();  // of the trailing axes that are all folded, or all kept
  int runs = 0;
  bool last_is_folded = false, any_folded = false;
  bool current = false;
  for (int axis = input.rank() - 1; axis >= 0; --axis) {
    if (input[axis] == 1) {
      if (runs <= 1) first_of_run = axis;
      continue;
    }
    const bool folded = is_folded[static_cast<size_t>(axis)];
    any_folded = any_folded || folded;
    if (runs == 0) last_is_folded = folded;
    if (runs == 0 || folded != current) ++runs;
    current = folded;
    if (runs == 1) first_of_run = axis;
  }
  if (!any_folded) return {.form = ReductionForm::copy, .domain = input.rank() ? input : Shape{1}};
  const Shape domain = with_trailing_axes_merged(input, first_of_run);
  const int64_t rows = element_count(domain) / domain.back();
  // Whatever axes are folded before the kept ones would need a second kernel.
  if (runs > 2) return {};
  if (last_is_folded) {
    if (rows < kFewRows && domain.back() > kLongRow) return {.why = FusionRefusal::too_few_rows};
    return {.form = ReductionForm::rows, .domain = domain};
  }
  if (domain.back() < kNarrowest) return {.why = FusionRefusal::too_narrow};
  return {.form = ReductionForm::columns, .domain = domain};
}

}  // namespace ridgeline
