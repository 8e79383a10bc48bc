#include "runtime/cuda/matmul_layout.h"

#include <algorithm>
#include <array>

#include "kernels/walk.h"

namespace ridgeline {
namespace {

struct Matrix {
  int64_t rows, columns, row_step, column_step;
};

Matrix matrix_of(const TensorView& view) {
  return {view.shape.back(1), view.shape.back(0), view.strides.back(1), view.strides.back(0)};
}

// Whether rows are contiguous and do not overlap; the step of an axis of size 1 does not matter.
bool by_rows(const Matrix& m) {
  return (m.column_step == 1 || m.columns == 1) && (m.row_step >= m.columns || m.rows == 1);
}
bool by_columns(const Matrix& m) {
  return by_rows({m.columns, m.rows, m.column_step, m.row_step});
}

MatmulOperand operand_of(const TensorView& view) {
  const Matrix m = matrix_of(view);
  if (by_rows(m)) return {false, m.rows == 1 ? m.columns : m.row_step};
  return {true, m.columns == 1 ? m.rows : m.column_step};
}

// Merges a batch of products with a common b into one product with more rows.
void merge_batch_into_rows(BatchedGemm& gemm) {
  const bool rows_continue =
      gemm.m == 1 ? gemm.a.batch_stride >= gemm.k : gemm.a.batch_stride == gemm.m * gemm.a.leading;
  if (gemm.batch == 1 || gemm.b.batch_stride != 0 || gemm.a.transposed || !rows_continue ||
      gemm.out_batch_stride != gemm.m * gemm.n)
    return;
  if (gemm.m == 1) gemm.a.leading = gemm.a.batch_stride;
  gemm.m *= gemm.batch;
  gemm.batch = 1;
  gemm.a.batch_stride = gemm.out_batch_stride = 0;
}

}  // namespace

bool library_can_read(const TensorView& view) {
  const Matrix m = matrix_of(view);
  return !view.host_scalar && (by_rows(m) || by_columns(m));
}

MatmulCalls matmul_calls(const TensorView& a, const TensorView& b, const TensorView& out) {
  const std::array batches = {batch_of(a), batch_of(b), batch_of(out)};
  const Walk walk = make_walk(batches[2].shape, batches);
  // The longest axis becomes the library's batch; other axes that cannot be merged become a loop.
  const int64_t* longest = std::max_element(walk.shape.begin(), walk.shape.end());
  const int batched = static_cast<int>(longest - walk.shape.begin());

  MatmulCalls calls;
  BatchedGemm& gemm = calls.gemm;
  gemm = {.dtype = a.dtype,
          .out_dtype = out.dtype,
          .m = out.shape.back(1),
          .n = out.shape.back(0),
          .k = a.shape.back(0),
          .batch = walk.shape[batched],
          .a = operand_of(a),
          .b = operand_of(b),
          .out_batch_stride = walk.strides[2][batched]};
  gemm.a.batch_stride = walk.strides[0][batched];
  gemm.b.batch_stride = walk.strides[1][batched];
  merge_batch_into_rows(gemm);

  calls.offsets = {{}};
  for (int axis = 0; axis < walk.shape.rank(); ++axis) {
    if (axis == batched) continue;
    std::vector<GemmOffsets> all;
    for (const GemmOffsets& base : calls.offsets)
      for (int64_t i = 0; i < walk.shape[axis]; ++i)
        all.push_back({base.a + i * walk.strides[0][axis], base.b + i * walk.strides[1][axis],
                       base.out + i * walk.strides[2][axis]});
    calls.offsets = std::move(all);
  }
  return calls;
}

}  // namespace ridgeline
