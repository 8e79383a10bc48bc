// Batched matrix products: our own kernels where there are vectors, the library otherwise.
#include <algorithm>

#include "kernels/cpu/gemm_few_rows.h"
#include "kernels/cpu/gemm_on_tiles.h"
#include "kernels/cpu/kernels.h"
#include "kernels/walk.h"

namespace ridgeline {
namespace {

GemmOperand operand_at(const TensorView& view, int64_t offset) {
  return {.data = element_address(view, offset),
          .dtype = view.dtype,
          .row_step = view.strides.back(1),
          .column_step = view.strides.back(0)};
}

// Kernels other than those of few rows pack both operands. The library has more kernels for small
// products, and for few columns, whose packed operands would be used only a few times.
bool pays_to_pack(int64_t m, int64_t n, int64_t k) {
  return m * n * k >= int64_t{1} << 20 && std::min({m, n, k}) >= 16;
}

}  // namespace

void matmul_kernel(const KernelCall& call, const CpuContext& context) {
  const TensorView& out = call.outputs[0];
  const int64_t m = out.shape.back(1), n = out.shape.back(0);
  const int64_t k = call.inputs[0].shape.back(0);
  const TensorView batches[] = {batch_of(call.inputs[0]), batch_of(call.inputs[1])};
  const Shape batch_shape = batch_of(out).shape;
  const Walk walk = make_walk(batch_shape, batches);
  const auto product = [&](int64_t index) {
    return Gemm{
        .m = m,
        .n = n,
        .k = k,
        .a = operand_at(call.inputs[0], walk.element_offset(0, index)),
        .b = operand_at(call.inputs[1], walk.element_offset(1, index)),
        .c = {.data = element_address(out, index * m * n), .dtype = out.dtype, .row_step = n}};
  };
  // Without vectors of our own the library is faster, but it computes fp32 only.
  const bool has_vectors = context.isa != Isa::portable;
  const bool is_ours =
      element_count(out.shape) > 0 &&
      (has_few_rows(product(0))              ? has_vectors || out.dtype != DType::f32
       : fits_tiles(product(0), context.isa) ? true
                                             : has_vectors && pays_to_pack(m, n, k));
  if (!is_ours) return library_matmul_kernel(call, context);
  // Threads that share a product wait for each other twice; whole products avoid that if there are
  // enough of them for all threads.
  const int64_t batch = element_count(batch_shape), threads = context.pool.threads();
  if (batch > 1 && (batch % threads == 0 || batch >= 4 * threads))
    return context.pool.for_each_nearby(
        batch, [&](int64_t index, int) { gemm_alone(product(index), context.isa); });
  for (int64_t index = 0; index < batch; ++index) gemm(product(index), context);
}

}  // namespace ridgeline
