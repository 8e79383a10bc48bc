#include "kernels/cpu/fused.h"

#include <algorithm>

#include "base/larger.h"
#include "kernels/cpu/chunk.h"
#include "kernels/cpu/simd_kernels.h"

namespace ridgeline {
namespace {

float* scratch_of_thread(int64_t floats) {
  static thread_local std::vector<float> scratch;
  if (static_cast<int64_t>(scratch.size()) < floats) scratch.resize(static_cast<size_t>(floats));
  return scratch.data();
}

}  // namespace

CpuFusedKernel::Steps CpuFusedKernel::steps_of(const FusedWalk::Steps& walk,
                                               const FusedOperand& operand) {
  return {.rows = {walk.rows.begin(), walk.rows.end()},
          .column = walk.column,
          .offset = operand.offset * (operand.is_position ? 1 : info(operand.dtype).size),
          .is_position = operand.is_position,
          .dtype = operand.dtype};
}

CpuFusedKernel::CpuFusedKernel(const FusedKernel& kernel, HostText text, HostFunction function)
    : function_(function),
      constants_(std::move(text.constants)),
      kept_rows_(text.kept_rows),
      folds_rows_(kernel.kind == FusedKind::row && kernel.has_folds()) {
  const FusedWalk walk = make_walk(kernel);
  rows_ = walk.rows();
  columns_ = walk.columns;
  parts_ = column_parts(kernel);
  sizes_.assign(walk.sizes.begin(), walk.sizes.end());
  for (size_t i = 0; i < kernel.inputs.size(); ++i)
    inputs_.push_back(steps_of(walk.inputs[i], kernel.inputs[i]));
  for (size_t i = 0; i < kernel.results.size(); ++i)
    outputs_.push_back(steps_of(walk.results[i], kernel.results[i].to));
  if (kernel.kind == FusedKind::row) return;
  std::vector<size_t> number(kernel.steps.size());
  for (size_t i = 0; i < kernel.steps.size(); ++i) {
    if (kernel.steps[i].kind != FusedStep::Kind::fold) continue;
    number[i] = folds_.size();
    folds_.push_back({kernel.steps[i].op, kernel.steps[i].dtype});
  }
  for (const FusedResult& result : kernel.results) fold_of_result_.push_back(number[result.step]);
}

void CpuFusedKernel::run(std::span<void* const> inputs, std::span<void* const> outputs,
                         void* scratch, const CpuContext& context) const {
  std::vector<HostOperand> operands(inputs.size() + outputs.size());
  const auto fill = [](HostOperand& operand, const Steps& steps, void* base) {
    char* address = steps.is_position ? nullptr : static_cast<char*>(base);
    operand = {address + steps.offset, steps.column, steps.rows.data()};
  };
  for (size_t i = 0; i < inputs.size(); ++i) fill(operands[i], inputs_[i], inputs[i]);
  HostOperand* results = operands.data() + inputs.size();
  for (size_t i = 0; i < outputs.size(); ++i) fill(results[i], outputs_[i], outputs[i]);
  if (parts_ > 0) {
    run_columns(operands.data(), results, static_cast<float*>(scratch), context);
  } else {
    run_rows(operands.data(), results, context);
  }
}

void CpuFusedKernel::run_rows(const HostOperand* inputs, const HostOperand* outputs,
                              const CpuContext& context) const {
  const auto call = [&](int64_t first_row, int64_t last_row, int64_t first, int64_t last) {
    function_(inputs, outputs, constants_.data(), sizes_.data(), first_row, last_row, first, last,
              kept_rows_ > 0 ? scratch_of_thread(kept_rows_ * columns_) : nullptr);
  };
  if (folds_rows_ || rows_ >= 4 * context.pool.threads())
    return context.pool.for_range(
        rows_, std::max<int64_t>(1, kGrain / columns_),
        [&](int64_t begin, int64_t end) { call(begin, end, 0, columns_); });
  // Every part begins at a multiple of a cache line.
  constexpr int64_t kLine = 64;
  const int64_t lines = (columns_ + kLine - 1) / kLine;
  context.pool.for_range(lines, std::max<int64_t>(1, kGrain / (kLine * rows_)),
                         [&](int64_t begin, int64_t end) {
                           call(0, rows_, begin * kLine, std::min(end * kLine, columns_));
                         });
}

void CpuFusedKernel::run_columns(const HostOperand* inputs, const HostOperand* outputs,
                                 float* parts, const CpuContext& context) const {
  const auto folds = static_cast<int64_t>(folds_.size());
  context.pool.for_each_nearby(parts_, [&](int64_t part, int) {
    function_(inputs, outputs, constants_.data(), sizes_.data(), rows_ * part / parts_,
              rows_ * (part + 1) / parts_, 0, columns_, parts + part * folds * columns_);
  });
  const SimdKernels& simd = simd_kernels(context.isa);
  context.pool.for_range(
      columns_, std::max<int64_t>(64, kGrain / parts_), [&](int64_t begin, int64_t end) {
        std::vector<float> total(static_cast<size_t>(end - begin));
        for (size_t result = 0; result < outputs_.size(); ++result) {
          const Fold& fold = folds_[fold_of_result_[result]];
          const float* first =
              parts + static_cast<int64_t>(fold_of_result_[result]) * columns_ + begin;
          std::copy(first, first + (end - begin), total.begin());
          for (int64_t part = 1; part < parts_; ++part) {
            const float* more = first + part * folds * columns_;
            for (size_t c = 0; c < total.size(); ++c)
              total[c] = fold.op == Op::max ? larger(total[c], more[c]) : total[c] + more[c];
          }
          if (fold.op == Op::mean)
            for (float& value : total) value *= 1.0f / static_cast<float>(rows_);
          char* to = static_cast<char*>(outputs[result].data) + begin * info(fold.dtype).size;
          simd.store(fold.dtype, total.data(), to, end - begin);
        }
      });
}

}  // namespace ridgeline
