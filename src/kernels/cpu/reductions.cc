// Sum, mean and max over any axes: rows are folded as a whole, and long sums are cascaded to keep
// fp32 accurate.
#include <limits>

#include "base/larger.h"
#include "kernels/cpu/chunk.h"
#include "kernels/cpu/kernels.h"
#include "kernels/walk.h"

namespace ridgeline {
namespace {

constexpr int64_t kRun = 512;  // summed in fp32; longer rows add up their runs in fp64

struct Reduction {
  Op combine;  // pointwise op that folds two partial results
  float neutral;
  float (*SimdKernels::*fold_row)(const float*, int64_t);
};

Reduction reduction_for(Op op) {
  if (op == Op::max)
    return {Op::maximum, -std::numeric_limits<float>::infinity(), &SimdKernels::max};
  return {Op::add, 0.0f, &SimdKernels::sum};
}

// The input seen as [kept axes] x [reduced axes], each with the strides of the input.
struct AxisSplit {
  TensorView kept, reduced;
};

AxisSplit split_axes(const TensorView& x, const Shape& result) {
  AxisSplit split{x, x};
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const bool is_reduced = result[axis] != x.shape[axis];
    (is_reduced ? split.kept : split.reduced).shape[axis] = 1;
  }
  return split;
}

// Folds chunks of equal length elementwise. Blocks of partial results are folded separately first,
// so that the rounding error grows with the square root of the length.
class ElementwiseFold {
 public:
  ElementwiseFold(const SimdKernels& simd, const Reduction& rule, int64_t count)
      : simd_(simd), rule_(rule), count_(count) {
    block_.fill(rule.neutral);
    total_.fill(rule.neutral);
  }

  void add(const float* chunk) {
    fold(block_, chunk);
    if (++in_block_ == kBlock) flush();
  }

  const ChunkBuffer& total() {
    flush();
    return total_;
  }

 private:
  static constexpr int kBlock = 64;

  void fold(ChunkBuffer& into, const float* chunk) {
    const PointwiseOperand operands[] = {{.data = into.data()}, {.data = chunk}};
    simd_.pointwise(rule_.combine, operands, into.data(), count_);
  }

  void flush() {
    fold(total_, block_.data());
    block_.fill(rule_.neutral);
    in_block_ = 0;
  }

  const SimdKernels& simd_;
  const Reduction& rule_;
  int64_t count_;
  int in_block_ = 0;
  ChunkBuffer block_;
  ChunkBuffer total_;
};

}  // namespace

void reduction_kernel(const KernelCall& call, const CpuContext& context) {
  const SimdKernels& simd = simd_kernels(context.isa);
  const Reduction rule = reduction_for(call.node.op);
  const TensorView& x = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const AxisSplit split = split_axes(x, out.shape);
  const Walk kept = make_walk(split.kept.shape, {&split.kept, 1});
  const Walk reduced = make_walk(split.reduced.shape, {&split.reduced, 1});
  const int64_t reduced_width = reduced.shape.back();
  const int64_t reduced_step = reduced.strides[0].back();
  const int64_t kept_width = kept.shape.back();
  const int64_t kept_step = kept.strides[0].back();
  const double count = static_cast<double>(element_count(split.reduced.shape));
  const float scale = call.node.op == Op::mean ? static_cast<float>(1.0 / count) : 1.0f;
  const auto finish = [&](float* values, int64_t first, int64_t n) {
    for (int64_t i = 0; i < n; ++i) values[i] *= scale;
    simd.store(out.dtype, values, element_address(out, first), n);
  };

  if (reduced_step == 1 || reduced_width > kept_width) {
    // Each result folds rows along the reduced axis.
    const int64_t results = element_count(split.kept.shape);
    context.pool.for_range(
        results, std::max<int64_t>(1, kGrain / reduced_width), [&](int64_t begin, int64_t end) {
          ChunkBuffer buffer;
          for (int64_t result = begin; result < end; ++result) {
            const int64_t start = kept.element_offset(0, result);
            double total = rule.neutral;
            for (int64_t outer = 0; outer < reduced.outer_count(); ++outer) {
              const int64_t row = start + reduced.row_offset(0, outer);
              for (int64_t first = 0; first < reduced_width; first += kRun) {
                const int64_t n = std::min(kRun, reduced_width - first);
                const float part = (simd.*rule.fold_row)(
                    load_chunk(simd, x, row + first * reduced_step, reduced_step, n, buffer), n);
                total = rule.combine == Op::add ? total + part : larger<double>(total, part);
              }
            }
            float value = static_cast<float>(total);
            finish(&value, result, 1);
          }
        });
    return;
  }
  // Adjacent results are folded together, a chunk of them at a time.
  const int64_t chunks = (kept_width + kChunk - 1) / kChunk;
  context.pool.for_range(kept.outer_count() * chunks, 1, [&](int64_t begin, int64_t end) {
    ChunkBuffer buffer;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % chunks * kChunk;
      const int64_t n = std::min(kChunk, kept_width - first);
      const int64_t start = kept.row_offset(0, item / chunks) + first * kept_step;
      ElementwiseFold fold(simd, rule, n);
      for (int64_t outer = 0; outer < reduced.outer_count(); ++outer)
        for (int64_t i = 0; i < reduced_width; ++i)
          fold.add(load_chunk(simd, x, start + reduced.row_offset(0, outer) + i * reduced_step,
                              kept_step, n, buffer));
      ChunkBuffer total = fold.total();
      finish(total.data(), item / chunks * kept_width + first, n);
    }
  });
}

}  // namespace ridgeline
