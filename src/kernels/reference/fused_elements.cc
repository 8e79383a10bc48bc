#include "kernels/reference/fused_elements.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/larger.h"
#include "kernels/host_values.h"
#include "kernels/reference/definitions.h"

namespace ridgeline {
namespace {

using Kind = FusedStep::Kind;

int64_t offset_of(const FusedOperand& operand, const Dims& place) {
  int64_t offset = operand.offset;
  for (int axis = 0; axis < place.rank(); ++axis) offset += operand.strides[axis] * place[axis];
  return offset;
}

// As the kernel holds it. fp32 would not hold every i32.
double constant_of(const FusedStep& step) {
  return step.dtype == DType::i32 ? std::trunc(step.constant)
                                  : rounded_to(step.dtype, static_cast<float>(step.constant));
}

int64_t product_loads(const FusedKernel& kernel) {
  return std::ranges::count_if(
      kernel.inputs, [&](const FusedOperand& input) { return kernel.is_computed(input); });
}

class Fold {
 public:
  explicit Fold(const FusedStep& step) : step_(step) {}
  void add(const Bounded& item) {
    sum_.add(item);
    largest_.value = larger(largest_.value, item.value);
    largest_.error = std::max(largest_.error, item.error);
  }
  Bounded total() const {
    if (step_.op == Op::max) return largest_;
    const Bounded sum = sum_.total();
    if (step_.op == Op::sum) return stored(sum, step_.dtype);
    return apply(Op::divide, {sum, {static_cast<double>(sum_.count()), 0}}, step_.dtype);
  }

 private:
  const FusedStep& step_;
  BoundedSum sum_;
  Bounded largest_{-std::numeric_limits<double>::infinity(), 0};
};

}  // namespace

FusedElements::FusedElements(const FusedKernel& kernel, Read read)
    : kernel_(kernel),
      read_(std::move(read)),
      values_(kernel.steps.size()),
      folded_(kernel.steps.size()) {}

bool FusedElements::is_fold(uint32_t step) const {
  return kernel_.steps[step].kind == Kind::fold;
}

void FusedElements::compute(uint32_t last, const Dims& place) {
  for (uint32_t i = 0; i <= last; ++i) {
    const FusedStep& step = kernel_.steps[i];
    switch (step.kind) {
      case Kind::constant:
        values_[i] = {constant_of(step), 0};
        break;
      case Kind::load: {
        const FusedOperand& operand = kernel_.inputs[step.operand];
        const int64_t offset = offset_of(operand, place);
        if (kernel_.is_computed(operand)) {
          values_[i] = product_at(offset);
          break;
        }
        values_[i] = {
            operand.is_position ? static_cast<double>(offset) : read_(step.operand, offset), 0};
        break;
      }
      case Kind::compute: {
        operands_.clear();
        for (uint32_t input : step.inputs) operands_.push_back(values_[input]);
        values_[i] = apply(step.op, operands_, step.dtype);
        break;
      }
      case Kind::fold:
        if (folded_[i]) values_[i] = *folded_[i];
        break;
    }
  }
}

// Products in kernels run on tensor cores.
Bounded FusedElements::product_at(int64_t offset) const {
  const FusedProduct& product = *kernel_.product;
  const int64_t row = offset / product.columns, column = offset % product.columns;
  const size_t left = kernel_.inputs.size();
  BoundedSum sum;
  for (int64_t k = 0; k < product.depth; ++k)
    sum.add({read_(left, product.left_offset(row, k)) *
                 read_(left + 1, product.right_offset(k, column)),
             0});
  return stored(sum.total(tensor_core_steps(product.dtype, product.depth)), product.dtype);
}

// In the order of the steps, since a later fold may need an earlier one.
void FusedElements::fold_row(const Dims& place) {
  Dims row = place;
  row.back() = 0;
  if (row_ == row) return;
  row_ = row;
  for (std::optional<Bounded>& folded : folded_) folded.reset();
  for (uint32_t i = 0; i < kernel_.steps.size(); ++i) {
    if (!is_fold(i)) continue;
    Fold fold(kernel_.steps[i]);
    for (row.back() = 0; row.back() < kernel_.columns(); ++row.back()) {
      compute(i, row);
      fold.add(values_[kernel_.steps[i].inputs[0]]);
    }
    folded_[i] = fold.total();
  }
}

Bounded FusedElements::fold_column(uint32_t step, const Dims& place) {
  Fold fold(kernel_.steps[step]);
  const int64_t column = place.back();
  Shape rows = kernel_.domain;
  rows.back() = 1;
  for (int64_t flat = 0; flat < element_count(rows); ++flat) {
    Dims at = reference::coordinates(rows, flat);
    at.back() = column;
    compute(step, at);
    fold.add(values_[kernel_.steps[step].inputs[0]]);
  }
  return fold.total();
}

Bounded FusedElements::at(size_t result, const Dims& place) {
  const uint32_t step = kernel_.results[result].step;
  const DType dtype = kernel_.results[result].to.dtype;
  Bounded value;
  if (kernel_.kind == FusedKind::column) {
    value = fold_column(step, place);
  } else {
    if (kernel_.has_folds()) fold_row(place);
    compute(step, place);
    value = values_[step];
  }
  return dtype == kernel_.steps[step].dtype ? value : stored(value, dtype);
}

int64_t FusedElements::offset(size_t result, const Dims& place) const {
  const FusedOperand& to = kernel_.results[result].to;
  if (kernel_.kind == FusedKind::column) return to.offset + place.back();
  return offset_of(to, place);
}

int64_t FusedElements::work() const {
  auto steps = static_cast<int64_t>(kernel_.steps.size());
  if (kernel_.product) steps += product_loads(kernel_) * kernel_.product->depth;
  return kernel_.kind == FusedKind::column ? steps * kernel_.rows() : steps;
}

int64_t FusedElements::work_of_fold() const {
  if (kernel_.kind == FusedKind::column) return 0;
  int64_t folds = 0;
  for (uint32_t i = 0; i < kernel_.steps.size(); ++i) folds += is_fold(i) ? 1 : 0;
  return folds * kernel_.columns() * static_cast<int64_t>(kernel_.steps.size());
}

}  // namespace ridgeline
