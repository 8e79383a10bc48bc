// How products of strided tensors become calls of the library; computed on the host as it would.
#include <gtest/gtest.h>

#include "kernels/walk.h"
#include "runtime/cuda/matmul_layout.h"
#include "support/random_view.h"

namespace ridgeline::cuda_matmul_test {
namespace {

float element(const MatmulOperand& operand, const float* data, int64_t row, int64_t column) {
  return operand.transposed ? data[column * operand.leading + row]
                            : data[row * operand.leading + column];
}

void multiply_on_host(const MatmulCalls& calls, const float* a, const float* b, float* out) {
  const BatchedGemm& g = calls.gemm;
  for (const GemmOffsets& at : calls.offsets)
    for (int64_t batch = 0; batch < g.batch; ++batch)
      for (int64_t row = 0; row < g.m; ++row)
        for (int64_t column = 0; column < g.n; ++column) {
          float total = 0;
          for (int64_t k = 0; k < g.k; ++k)
            total += element(g.a, a + at.a + batch * g.a.batch_stride, row, k) *
                     element(g.b, b + at.b + batch * g.b.batch_stride, k, column);
          out[at.out + batch * g.out_batch_stride + row * g.n + column] = total;
        }
}

// Leading dimensions that the library accepts.
void expect_valid(const MatmulOperand& operand, int64_t rows, int64_t columns) {
  EXPECT_GE(operand.leading, operand.transposed ? rows : columns);
}

TEST(MatmulLayout, CallsComputeTheBroadcastProduct) {
  int checked = 0, looped = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    testing::RandomViewMaker random(seed);
    const Shape out_shape = random.shape(2 + static_cast<int>(random.below(3)));
    if (element_count(out_shape) > 3000) continue;
    const int64_t depth = 1 + random.below(6);
    Shape shapes[2] = {out_shape, out_shape};
    shapes[0].back(0) = depth;
    shapes[1].back(1) = depth;
    for (Shape& shape : shapes)
      for (int axis = 0; axis + 2 < shape.rank(); ++axis)
        if (random.below(4) == 0) shape[axis] = 1;
    std::vector<float> data[2];
    TensorView views[2];
    for (int i = 0; i < 2; ++i) {
      data[i].resize(static_cast<size_t>(random.space_for(shapes[i])));
      for (float& value : data[i]) value = static_cast<float>(random.below(8));
      views[i] = random.view(data[i].data(), DType::f32, shapes[i]);
    }
    if (!library_can_read(views[0]) || !library_can_read(views[1])) continue;
    std::vector<float> result(static_cast<size_t>(element_count(out_shape)), -1);
    const TensorView out{result.data(), DType::f32, out_shape, contiguous_strides(out_shape)};
    const MatmulCalls calls = matmul_calls(views[0], views[1], out);
    expect_valid(calls.gemm.a, calls.gemm.m, calls.gemm.k);
    expect_valid(calls.gemm.b, calls.gemm.k, calls.gemm.n);
    multiply_on_host(calls, views[0].as<float>(), views[1].as<float>(), result.data());
    ++checked;
    looped += calls.offsets.size() > 1;

    for (int64_t flat = 0; flat < element_count(out_shape); ++flat) {
      Dims at = Dims::filled(out_shape.rank(), 0);
      for (int64_t axis = out_shape.rank() - 1, rest = flat; axis >= 0; --axis) {
        at[static_cast<int>(axis)] = rest % out_shape[static_cast<int>(axis)];
        rest /= out_shape[static_cast<int>(axis)];
      }
      const auto element_at = [&](const TensorView& view, Dims where) {
        int64_t offset = 0;
        for (int axis = 0; axis < where.rank(); ++axis)
          if (view.shape[axis] != 1) offset += where[axis] * view.strides[axis];
        return view.as<float>()[offset];
      };
      float expected = 0;
      for (int64_t k = 0; k < depth; ++k) {
        Dims at_a = at, at_b = at;
        at_a.back(0) = k;
        at_b.back(1) = k;
        expected += element_at(views[0], at_a) * element_at(views[1], at_b);
      }
      ASSERT_EQ(result[static_cast<size_t>(flat)], expected) << "seed " << seed << ", " << flat;
    }
  }
  EXPECT_GT(checked, 500);
  EXPECT_GT(looped, 5);
}

TensorView f32_view(const Shape& shape) {
  return {reinterpret_cast<void*>(0x1000), DType::f32, shape, contiguous_strides(shape)};
}

TensorView transposed(TensorView view) {
  std::swap(view.shape.back(0), view.shape.back(1));
  std::swap(view.strides.back(0), view.strides.back(1));
  return view;
}

TEST(MatmulLayout, AttentionNeedsOneCallAndNoCopy) {
  const TensorView q = f32_view({8, 256, 64}), weights = f32_view({8, 256, 256});
  const TensorView keys = transposed(q);
  ASSERT_TRUE(library_can_read(keys));
  const MatmulCalls scores = matmul_calls(q, keys, weights);
  EXPECT_EQ(scores.offsets.size(), 1u);
  EXPECT_EQ(scores.gemm.batch, 8);
  EXPECT_FALSE(scores.gemm.a.transposed);
  EXPECT_TRUE(scores.gemm.b.transposed);
  EXPECT_EQ(scores.gemm.b.leading, 64);
  const MatmulCalls d_keys = matmul_calls(transposed(weights), q, q);
  EXPECT_TRUE(d_keys.gemm.a.transposed);
  EXPECT_EQ(d_keys.gemm.a.leading, 256);
}

TEST(MatmulLayout, ASharedRightSideIsOneTallProduct) {
  const MatmulCalls calls =
      matmul_calls(f32_view({4, 8, 32}), f32_view({32, 16}), f32_view({4, 8, 16}));
  EXPECT_EQ(calls.gemm.batch, 1);
  EXPECT_EQ(calls.gemm.m, 32);
}

TEST(MatmulLayout, HeadsInsideRowsAreABatchStride) {
  // [B, S, H, D] seen as [B, H, S, D]: two batch axes that do not merge.
  TensorView x = f32_view({2, 16, 3, 8});
  x.shape = {2, 3, 16, 8};
  x.strides = {16 * 24, 8, 24, 1};
  ASSERT_TRUE(library_can_read(x));
  const MatmulCalls calls = matmul_calls(x, transposed(x), f32_view({2, 3, 16, 16}));
  EXPECT_EQ(calls.gemm.a.leading, 24);
  EXPECT_EQ(calls.gemm.batch, 3);
  EXPECT_EQ(calls.gemm.a.batch_stride, 8);
  EXPECT_EQ(calls.offsets.size(), 2u);
}

TEST(MatmulLayout, BroadcastAndStridedMatricesNeedACopy) {
  TensorView x = f32_view({16, 8});
  x.strides = {0, 1};
  EXPECT_FALSE(library_can_read(x));
  x.strides = {16, 2};
  EXPECT_FALSE(library_can_read(x));
  x.strides = {8, 1};
  x.host_scalar = true;
  EXPECT_FALSE(library_can_read(x));
}

}  // namespace
}  // namespace ridgeline::cuda_matmul_test
