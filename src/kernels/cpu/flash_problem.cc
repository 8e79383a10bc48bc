#include "kernels/cpu/flash_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/packed_scratch.h"

namespace ridgeline {
namespace {

constexpr int64_t kMaxHeadDim = 256;
constexpr int64_t kFloatsPerLine = 16;

void expect(const TensorView& view, const char* name, DType dtype, const Shape& shape) {
  if (view.dtype != dtype)
    throw Error(ErrorKind::usage,
                fmt::format("flash attention: {} is {}, expected {}", name, info(view.dtype).name,
                            info(dtype).name),
                "give all tensors the dtype of q, and log_sum_exp fp32");
  if (!(view.shape == shape) || view.strides.rank() != shape.rank())
    throw Error(ErrorKind::usage,
                fmt::format("flash attention: {} has shape {} with {} strides, expected shape {}",
                            name, to_string(view.shape), view.strides.rank(), to_string(shape)));
  if (view.data == nullptr && element_count(shape) > 0)
    throw Error(ErrorKind::usage, fmt::format("flash attention: {} has no storage", name));
}

AttentionSizes check_inputs(const TensorView& q, const TensorView& k, const TensorView& v,
                            const TensorView& log_sum_exp, const AttentionMask& mask) {
  if (q.dtype == DType::tf32) throw no_tf32();
  if (q.dtype != DType::f32 && q.dtype != DType::bf16 && q.dtype != DType::f16)
    throw Error(ErrorKind::usage, fmt::format("flash attention: q is {}", info(q.dtype).name),
                "use fp32, bf16 or fp16");
  if (q.shape.rank() != 4 || k.shape.rank() != 4)
    throw Error(
        ErrorKind::usage,
        fmt::format("flash attention: q has shape {} and k {}", to_string(q.shape),
                    to_string(k.shape)),
        "give q [batch, heads, queries, head_dim] and k [batch, key_heads, keys, head_dim]");
  const AttentionSizes sizes = {q.shape[0], q.shape[1], k.shape[1],
                                q.shape[2], k.shape[2], q.shape[3]};
  if (sizes.head_dim < 1)
    throw Error(ErrorKind::usage, fmt::format("flash attention: head_dim is {}", sizes.head_dim),
                fmt::format("use 1 to {}", kMaxHeadDim));
  if (sizes.head_dim > kMaxHeadDim)
    throw Error(ErrorKind::unsupported,
                fmt::format("attention heads are {} wide, and the flash kernels support up to {}",
                            sizes.head_dim, kMaxHeadDim),
                "use the naive implementation");
  if (sizes.key_heads < 1 || sizes.heads % sizes.key_heads != 0)
    throw Error(ErrorKind::usage,
                fmt::format("flash attention: {} query heads cannot share {} key heads",
                            sizes.heads, sizes.key_heads),
                "make the query heads a multiple of the key heads");
  if (mask.window < 0)
    throw Error(ErrorKind::usage, fmt::format("flash attention: the window is {}", mask.window),
                "use 0 for no window");
  const Shape keys = {sizes.batch, sizes.key_heads, sizes.keys, sizes.head_dim};
  expect(q, "q", q.dtype, q.shape);
  expect(k, "k", q.dtype, keys);
  expect(v, "v", q.dtype, keys);
  expect(log_sum_exp, "log_sum_exp", DType::f32, {sizes.batch, sizes.heads, sizes.queries});
  return sizes;
}

}  // namespace

AttentionSizes check(const FlashForward& problem) {
  const AttentionSizes sizes =
      check_inputs(problem.q, problem.k, problem.v, problem.log_sum_exp, problem.mask);
  expect(problem.out, "out", problem.q.dtype, problem.q.shape);
  return sizes;
}

AttentionSizes check(const FlashBackward& problem) {
  const AttentionSizes sizes =
      check_inputs(problem.q, problem.k, problem.v, problem.log_sum_exp, problem.mask);
  const DType dtype = problem.q.dtype;
  expect(problem.out, "out", dtype, problem.q.shape);
  expect(problem.d_out, "d_out", dtype, problem.q.shape);
  expect(problem.d_q, "d_q", dtype, problem.q.shape);
  expect(problem.d_k, "d_k", dtype, problem.k.shape);
  expect(problem.d_v, "d_v", dtype, problem.k.shape);
  return sizes;
}

FlashMask resolve(const AttentionMask& mask, const AttentionSizes& sizes) {
  const bool bottom_right = mask.alignment == AttentionMask::Alignment::bottom_right;
  return {.keys = sizes.keys,
          .offset = bottom_right ? sizes.keys - sizes.queries : 0,
          // A window ends at the query's own position, so it masks later keys as well.
          .causal = mask.causal || mask.window > 0,
          .window = mask.window};
}

FlashRows rows_of(const TensorView& view, int64_t batch, int64_t head) {
  FlashRows rows;
  rows.storage = view.dtype == DType::f32    ? FlashStorage::f32
                 : view.dtype == DType::bf16 ? FlashStorage::bf16
                                             : FlashStorage::f16;
  const int64_t elements = batch * view.strides[0] + head * view.strides[1];
  rows.data = view.as<char>() + elements * info(view.dtype).size;
  rows.row_stride = view.strides[2];
  rows.column_stride = view.strides[3];
  return rows;
}

const FlashKernels& flash_kernels(Isa isa) {
  return pick(isa, portable::kFlashKernels, avx2::kFlashKernels, avx512::kFlashKernels);
}

bool fits_blocks(Isa isa, std::initializer_list<TensorView> tensors) {
  if (isa < Isa::avx512_bf16) return false;
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorView& view) {
    return view.dtype == DType::bf16 && view.shape[3] % 32 == 0 && view.strides[3] == 1;
  });
}

AlignedFloats::AlignedFloats(int64_t count) {
  const int64_t padded = divide_up(count, kFloatsPerLine) * kFloatsPerLine;
  const size_t bytes = static_cast<size_t>(padded) * sizeof(float);
  if (bytes == 0) return;
  data_.reset(static_cast<float*>(std::aligned_alloc(kFloatsPerLine * sizeof(float), bytes)));
  if (data_ == nullptr)
    throw Error(ErrorKind::out_of_memory,
                fmt::format("flash attention: cannot allocate {} bytes of scratch", bytes));
}

void AlignedFloats::Free::operator()(float* data) const {
  std::free(data);
}

ThreadScratch::ThreadScratch(const ThreadPool& pool, int64_t floats)
    : stride_(divide_up(floats, kFloatsPerLine) * kFloatsPerLine) {
  static thread_local PackedScratch scratch;
  floats_ = scratch.at_least(stride_ * pool.threads());
}

}  // namespace ridgeline
