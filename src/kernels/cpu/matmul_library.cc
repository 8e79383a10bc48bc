// Batched matrix products by the library: it multiplies, our threads share the batch and blocks.
#include <vector>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/gemm_ladder.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd_kernels.h"
#include "kernels/cuts.h"
#include "kernels/walk.h"

namespace ridgeline {
namespace {

// A matrix inside a tensor, with the strides of its two axes.
struct Matrix {
  const TensorView* view;
  int64_t offset;
  int64_t rows, columns;
  int64_t row_step, column_step;
};

struct Operand {
  const float* data;
  int64_t leading;
  bool transposed;
};

// The library needs one axis contiguous and the stride of the other at least as large as that axis.
bool fits_library(const Matrix& m) {
  if (m.view->dtype != DType::f32) return false;
  const bool by_rows = m.column_step == 1 && (m.row_step >= m.columns || m.rows == 1);
  const bool by_columns = m.row_step == 1 && (m.column_step >= m.rows || m.columns == 1);
  return by_rows || by_columns;
}

Operand in_place(const Matrix& m) {
  const float* data = m.view->as<float>() + m.offset;
  const bool by_rows = m.column_step == 1 && (m.row_step >= m.columns || m.rows == 1);
  if (by_rows) return {data, std::max(m.row_step, m.columns), false};
  return {data, std::max(m.column_step, m.rows), true};
}

// Blocks of fixed size bound the scratch memory of a thread for all shapes.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kBlockColumns = 256;
constexpr int64_t kBlockDepth = 512;

struct BlockScratch {
  std::vector<float> a, b, c;  // empty until a product needs packing

  void prepare() {
    a.resize(kBlockRows * kBlockDepth);
    b.resize(kBlockDepth * kBlockColumns);
    c.resize(kBlockRows * kBlockColumns);
  }
};

// Widens the block of `m` at (row, column) to contiguous fp32 rows.
void pack(const SimdKernels& simd, const Matrix& m, int64_t row, int64_t column, int64_t rows,
          int64_t columns, std::vector<float>& to) {
  const int size = info(m.view->dtype).size;
  const char* base = element_address(*m.view, m.offset + row * m.row_step + column * m.column_step);
  if (m.column_step == 1) {
    for (int64_t r = 0; r < rows; ++r)
      simd.load(m.view->dtype, base + r * m.row_step * size, &to[static_cast<size_t>(r * columns)],
                columns);
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      simd.load(m.view->dtype, base + (r * m.row_step + c * m.column_step) * size,
                &to[static_cast<size_t>(r * columns + c)], 1);
}

// For 16-bit storage, and strides that the library cannot read.
void multiply_packed(const SimdKernels& simd, const Matrix& a, const Matrix& b,
                     const TensorView& out, int64_t out_offset, int64_t out_step,
                     BlockScratch& scratch) {
  scratch.prepare();
  const int64_t n = b.columns;
  for (int64_t row = 0; row < a.rows; row += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, a.rows - row);
    for (int64_t column = 0; column < n; column += kBlockColumns) {
      const int64_t columns = std::min(kBlockColumns, n - column);
      for (int64_t k = 0; k < a.columns; k += kBlockDepth) {
        const int64_t depth = std::min(kBlockDepth, a.columns - k);
        pack(simd, a, row, k, rows, depth, scratch.a);
        pack(simd, b, k, column, depth, columns, scratch.b);
        sgemm({.m = rows,
               .n = columns,
               .k = depth,
               .a = scratch.a.data(),
               .lda = depth,
               .b = scratch.b.data(),
               .ldb = columns,
               .c = scratch.c.data(),
               .ldc = columns,
               .beta = k == 0 ? 0.0f : 1.0f});
      }
      for (int64_t r = 0; r < rows; ++r)
        simd.store(out.dtype, &scratch.c[static_cast<size_t>(r * columns)],
                   element_address(out, out_offset + (row + r) * out_step + column), columns);
    }
  }
}

Matrix matrix_at(const TensorView& view, int64_t offset) {
  return {&view,
          offset,
          view.shape.back(1),
          view.shape.back(0),
          view.strides.back(1),
          view.strides.back(0)};
}

// The number of parts along each axis of a product.
struct Cuts {
  int64_t rows = 1, columns = 1;
};

// Products are divided only if the batch alone leaves threads idle. Every part packs its rows of
// the left and its columns of the right operand again, so the division that packs least is chosen.
Cuts cut_product(int64_t m, int64_t n, int64_t batch, int threads) {
  constexpr int64_t kLeastSide = 128;  // of a part: smaller ones do not fill the library's blocks
  constexpr int64_t kPiecesPerThread = 2;  // so that a late thread can be helped
  if (threads == 1) return {};
  const int64_t most_rows = std::max<int64_t>(1, m / kLeastSide);
  const int64_t most_columns = std::max<int64_t>(1, n / kLeastSide);
  const int64_t pieces =
      std::min((kPiecesPerThread * threads + batch - 1) / batch, most_rows * most_columns);
  const auto packed = [&](const Cuts& cuts) { return cuts.columns * m + cuts.rows * n; };
  Cuts best{most_rows, most_columns};
  for (int64_t rows = 1; rows <= std::min(most_rows, pieces); ++rows) {
    const Cuts cuts{rows, (pieces + rows - 1) / rows};
    if (cuts.columns <= most_columns && packed(cuts) < packed(best)) best = cuts;
  }
  return best;
}

}  // namespace

void library_matmul_kernel(const KernelCall& call, const CpuContext& context) {
  const SimdKernels& simd = simd_kernels(context.isa);
  const TensorView& out = call.outputs[0];
  if (out.dtype == DType::tf32) throw no_tf32();
  const int64_t m = out.shape.back(1);
  const int64_t n = out.shape.back(0);
  const TensorView batches[] = {batch_of(call.inputs[0]), batch_of(call.inputs[1])};
  const Shape batch_shape = batch_of(out).shape;
  const Walk walk = make_walk(batch_shape, batches);
  const int64_t batch = element_count(batch_shape);

  const Cuts cuts = cut_product(m, n, batch, context.pool.threads());
  std::vector<BlockScratch> scratch(static_cast<size_t>(context.pool.threads()));
  context.pool.for_each_nearby(batch * cuts.rows * cuts.columns, [&](int64_t item, int thread) {
    const int64_t index = item / (cuts.rows * cuts.columns);
    const auto [row, rows] = part_of(m, item / cuts.columns % cuts.rows, cuts.rows);
    const auto [column, columns] = part_of(n, item % cuts.columns, cuts.columns);
    Matrix a = matrix_at(call.inputs[0], walk.element_offset(0, index));
    Matrix b = matrix_at(call.inputs[1], walk.element_offset(1, index));
    a.offset += row * a.row_step;
    a.rows = rows;
    b.offset += column * b.column_step;
    b.columns = columns;
    const int64_t out_offset = (index * m + row) * n + column;
    if (out.dtype != DType::f32 || !fits_library(a) || !fits_library(b)) {
      multiply_packed(simd, a, b, out, out_offset, n, scratch[static_cast<size_t>(thread)]);
      return;
    }
    const Operand left = in_place(a);
    const Operand right = in_place(b);
    if (n == 1 && !left.transposed && b.row_step == 1) {  // sgemm would pack what is used once
      sgemv({.m = a.rows,
             .n = a.columns,
             .a = left.data,
             .lda = left.leading,
             .x = right.data,
             .y = out.as<float>() + out_offset});
      return;
    }
    sgemm({.m = a.rows,
           .n = b.columns,
           .k = a.columns,
           .a = left.data,
           .lda = left.leading,
           .transpose_a = left.transposed,
           .b = right.data,
           .ldb = right.leading,
           .transpose_b = right.transposed,
           .c = out.as<float>() + out_offset,
           .ldc = n});
  });
}

void gemm_library(const GemmOperands& operands, const CpuContext& context) {
  static const Node product{
      .op = Op::matmul, .inputs = {}, .attributes = {}, .outputs = {}, .name = {}};
  const TensorView inputs[] = {operands.a, operands.b}, outputs[] = {operands.out};
  library_matmul_kernel({product, inputs, outputs}, context);
}

}  // namespace ridgeline
