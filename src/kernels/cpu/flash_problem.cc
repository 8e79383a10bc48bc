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

}  // namespace

AttentionSizes sizes_of(const TensorView& q, const TensorView& k) {
  if (q.dtype == DType::tf32) throw no_tf32();
  const AttentionSizes sizes = {q.shape[0], q.shape[1], k.shape[1],
                                q.shape[2], k.shape[2], q.shape[3]};
  if (sizes.head_dim > kMaxHeadDim)
    throw Error(ErrorKind::unsupported,
                fmt::format("attention heads are {} wide, and the flash kernels support up to {}",
                            sizes.head_dim, kMaxHeadDim),
                "use the naive implementation");
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
