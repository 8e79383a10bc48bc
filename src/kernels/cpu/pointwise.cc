// Pointwise ops over any strides and dtypes: chunks are widened to fp32, computed, and narrowed.
#include "kernels/cpu/chunk.h"
#include "kernels/cpu/kernels.h"
#include "kernels/walk.h"

namespace ridgeline {
namespace {

constexpr int kMaxOperands = 3;
constexpr int64_t kPointwiseGrain = 2 * kGrain;  // one pass over memory: little work per element

// Runs `op` over `inputs` broadcast to the shape of `out`, which may have any strides.
void run_pointwise(Op op, std::span<const TensorView> inputs, const TensorView& out,
                   const CpuContext& context) {
  const SimdKernels& simd = simd_kernels(context.isa);
  std::vector<TensorView> tensors(inputs.begin(), inputs.end());
  tensors.push_back(out);
  const Walk walk = make_walk(out.shape, tensors);
  const int result = static_cast<int>(inputs.size());
  const int64_t out_stride =
      walk.strides.back().back();  // a part of a padded tensor may not be contiguous
  const int64_t width = walk.shape.back();
  const int64_t chunks = (width + kChunk - 1) / kChunk;
  const int64_t grain = std::max<int64_t>(1, kPointwiseGrain / std::min(width, kChunk));

  context.pool.for_range(walk.outer_count() * chunks, grain, [&](int64_t begin, int64_t end) {
    std::array<ChunkBuffer, kMaxOperands> buffers;
    ChunkBuffer computed;
    std::array<PointwiseOperand, kMaxOperands> operands{};
    for (int64_t item = begin; item < end; ++item) {
      const int64_t outer = item / chunks;
      const int64_t first = item % chunks * kChunk;
      const int64_t count = std::min(kChunk, width - first);
      for (int t = 0; t < result; ++t) {
        const auto index = static_cast<size_t>(t);
        const int64_t stride = walk.strides[index].back();
        const int64_t offset = walk.row_offset(t, outer) + first * stride;
        const bool is_scalar = stride == 0;
        operands[index] = {
            load_chunk(simd, inputs[index], offset, stride, is_scalar ? 1 : count, buffers[index]),
            is_scalar};
      }
      const int64_t to = walk.row_offset(result, outer) + first * out_stride;
      if (out.dtype == DType::f32 && out_stride == 1) {
        simd.pointwise(op, operands.data(), out.as<float>() + to, count);
        continue;
      }
      simd.pointwise(op, operands.data(), computed.data(), count);
      if (out_stride == 1) {
        simd.store(out.dtype, computed.data(), element_address(out, to), count);
        continue;
      }
      for (int64_t i = 0; i < count; ++i)
        simd.store(out.dtype, &computed[static_cast<size_t>(i)],
                   element_address(out, to + i * out_stride), 1);
    }
  });
}

}  // namespace

void pointwise_kernel(const KernelCall& call, const CpuContext& context) {
  run_pointwise(call.node.op, call.inputs, call.outputs[0], context);
}

// The result is contiguous, so it can be written in the shape of the input.
void reshape_kernel(const KernelCall& call, const CpuContext& context) {
  TensorView out = call.outputs[0];
  out.shape = call.inputs[0].shape;
  out.strides = contiguous_strides(out.shape);
  run_pointwise(Op::cast, call.inputs, out, context);
}

void pad_kernel(const KernelCall& call, const CpuContext& context) {
  const auto& [axis, begin, end] = std::get<Range>(call.node.attributes.detail);
  const TensorView& out = call.outputs[0];
  float zero = 0;
  const TensorView nothing{&zero, DType::f32, {}, {}};
  const int64_t size = out.shape[axis];
  run_pointwise(Op::cast, call.inputs, part_of(out, axis, begin, end), context);
  if (begin > 0) run_pointwise(Op::cast, {&nothing, 1}, part_of(out, axis, 0, begin), context);
  if (end < size) run_pointwise(Op::cast, {&nothing, 1}, part_of(out, axis, end, size), context);
}

void concat_kernel(const KernelCall& call, const CpuContext& context) {
  const auto axis = static_cast<int>(std::get<Axes>(call.node.attributes.detail).axes[0]);
  int64_t begin = 0;
  for (const TensorView& input : call.inputs) {
    const int64_t end = begin + input.shape[axis];
    run_pointwise(Op::cast, {&input, 1}, part_of(call.outputs[0], axis, begin, end), context);
    begin = end;
  }
}

void iota_kernel(const KernelCall& call, const CpuContext&) {
  const TensorView& out = call.outputs[0];
  for (int64_t i = 0; i < out.shape[0]; ++i) out.as<int32_t>()[i] = static_cast<int32_t>(i);
}

}  // namespace ridgeline
