// Softmax, log-softmax and their gradients: one task per row, which stays in cache between passes.
#include <vector>

#include "kernels/cpu/chunk.h"
#include "kernels/cpu/kernels.h"
#include "kernels/walk.h"

namespace ridgeline {
namespace {

// A row as contiguous fp32: in place if it is that already, else widened into `buffer`.
const float* load_row(const SimdKernels& simd, const TensorView& view, int64_t offset,
                      int64_t stride, int64_t width, std::vector<float>& buffer) {
  if (stride == 1 && view.dtype == DType::f32) return view.as<float>() + offset;
  buffer.resize(static_cast<size_t>(width));
  widen_row(simd, view.dtype, view.data, offset, stride, width, buffer.data());
  return buffer.data();
}

// Calls row_function(operand rows, result row, width) for every row of the last axis.
template <class RowFunction>
void for_each_row(const KernelCall& call, const CpuContext& context, RowFunction row_function) {
  const SimdKernels& simd = simd_kernels(context.isa);
  const TensorView& out = call.outputs[0];
  const int64_t width = out.shape.back();
  // The walk is over the axes before the last one; each operand has its own strides there.
  const Shape rows(out.shape.span().first(static_cast<size_t>(out.shape.rank() - 1)));
  std::vector<TensorView> heads(call.inputs.begin(), call.inputs.end());
  for (TensorView& head : heads) {
    head.shape = rows;
    head.strides = Strides(head.strides.span().first(static_cast<size_t>(rows.rank())));
  }
  const Walk walk = make_walk(rows, heads);
  const int64_t count = element_count(rows);
  const int64_t grain = std::max<int64_t>(1, kGrain / width);

  context.pool.for_range(count, grain, [&](int64_t begin, int64_t end) {
    std::vector<std::vector<float>> buffers(heads.size() + 1);
    std::vector<const float*> operands(heads.size());
    for (int64_t row = begin; row < end; ++row) {
      for (size_t t = 0; t < heads.size(); ++t)
        operands[t] = load_row(simd, heads[t], walk.element_offset(static_cast<int>(t), row),
                               call.inputs[t].strides.back(), width, buffers[t]);
      if (out.dtype == DType::f32) {
        row_function(simd, operands, out.as<float>() + row * width, width);
      } else {
        buffers.back().resize(static_cast<size_t>(width));
        row_function(simd, operands, buffers.back().data(), width);
        simd.store(out.dtype, buffers.back().data(), element_address(out, row * width), width);
      }
    }
  });
}

}  // namespace

void softmax_kernel(const KernelCall& call, const CpuContext& context) {
  for_each_row(call, context,
               [](const SimdKernels& simd, const auto& operands, float* out, int64_t width) {
                 simd.softmax(operands[0], out, width);
               });
}

void softmax_gradient_kernel(const KernelCall& call, const CpuContext& context) {
  for_each_row(call, context,
               [](const SimdKernels& simd, const auto& operands, float* out, int64_t width) {
                 simd.softmax_gradient(operands[0], operands[1], out, width);
               });
}

void log_softmax_kernel(const KernelCall& call, const CpuContext& context) {
  for_each_row(call, context,
               [](const SimdKernels& simd, const auto& operands, float* out, int64_t width) {
                 simd.log_softmax(operands[0], out, width);
               });
}

void log_softmax_gradient_kernel(const KernelCall& call, const CpuContext& context) {
  for_each_row(call, context,
               [](const SimdKernels& simd, const auto& operands, float* out, int64_t width) {
                 simd.log_softmax_gradient(operands[0], operands[1], out, width);
               });
}

}  // namespace ridgeline
