// Attention over a cache: threads share chunks of positions, whose results are combined by their
// log-sum-exp. Positions that no row sees are skipped.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/chunk.h"
#include "kernels/cpu/flash.h"
#include "kernels/cpu/kernels.h"
#include "kernels/walk.h"

namespace ridgeline {
namespace {

constexpr int64_t kMostRows = 64;      // queries, of all heads of a group, per task
constexpr int64_t kFlashQueries = 16;  // from this many on the flash kernels are faster
constexpr int64_t kPitch = 16;         // floats of the widest vector

// Query i of head g in a group of G heads is row i G + g, so that adjacent rows see similar keys.
class CachedAttention {
 public:
  CachedAttention(const KernelCall& call, const CpuContext& context)
      : call_(call),
        context_(context),
        simd_(simd_kernels(context.isa)),
        spec_(std::get<AttentionSpec>(call.node.attributes.detail)),
        group_(q().shape[1] / keys().shape[1]),
        slots_(keys().shape[2]),
        width_(q().shape[3]),
        pitch_((width_ + kPitch - 1) / kPitch * kPitch),
        rows_(group_ * q().shape[2]),
        tile_rows_(std::min(rows_, kMostRows)),
        tiles_((rows_ + tile_rows_ - 1) / tile_rows_),
        first_(position_of(call.inputs[3])),
        // Chunks depend on shapes alone, so that the number of threads changes no bit; sums are a
        // small part of what is read.
        chunk_(std::max<int64_t>(128, 32 * tile_rows_)) {}

  void run() {
    const int64_t heads = q().shape[0] * keys().shape[1];
    for (int64_t tile = 0; tile < tiles_; ++tile) {
      const Span seen = span_of(tile);
      chunks_ = std::max(chunks_, (seen.last - seen.first + chunk_ - 1) / chunk_);
    }
    const int64_t tasks = heads * tiles_ * chunks_;
    largest_.assign(static_cast<size_t>(tasks * tile_rows_), -INFINITY);
    total_.assign(static_cast<size_t>(tasks * tile_rows_), 0);
    sums_.resize(static_cast<size_t>(tasks * tile_rows_ * pitch_));
    context_.pool.for_each(tasks, [&](int64_t task, int) { attend(task); });
    context_.pool.for_range(heads * rows_, std::max<int64_t>(1, kGrain / (chunks_ * width_)),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t row = begin; row < end; ++row) join(row);
                            });
  }

 private:
  struct Span {  // of positions
    int64_t first, last;
  };
  const TensorView& q() const { return call_.inputs[0]; }
  const TensorView& keys() const { return call_.inputs[1]; }
  const TensorView& values() const { return call_.inputs[2]; }

  Span span_of_query(int64_t query) const {
    const int64_t newest = first_ + q().shape[2] - 1, at = first_ + query;
    int64_t oldest = std::max<int64_t>(0, newest - slots_ + 1);
    if (spec_.mask.window > 0) oldest = std::max(oldest, at - spec_.mask.window + 1);
    return {oldest, std::max(oldest, at + 1)};
  }
  // Of all queries of the tile; may be empty.
  Span span_of(int64_t tile) const {
    const int64_t end = std::min((tile + 1) * tile_rows_, rows_);
    const Span first = span_of_query(tile * tile_rows_ / group_);
    return {first.first, std::max(first.first, span_of_query((end - 1) / group_).last)};
  }

  void attend(int64_t task) {
    const int64_t tile = task / chunks_ % tiles_, head = task / chunks_ / tiles_;
    const Span all = span_of(tile);
    const int64_t begin = all.first + task % chunks_ * chunk_;
    const int64_t end = std::min(all.last, begin + chunk_);
    if (begin >= end) return;
    const int64_t first_row = tile * tile_rows_, rows = std::min(tile_rows_, rows_ - first_row);
    float* sums = &sums_[static_cast<size_t>(task * tile_rows_ * pitch_)];
    std::fill_n(sums, rows * pitch_, 0.0f);
    std::vector<float> queries(static_cast<size_t>(rows * pitch_), 0.0f);
    for (int64_t row = 0; row < rows; ++row)
      load_query(head, first_row + row, &queries[static_cast<size_t>(row * pitch_)]);
    std::vector<int64_t> first(static_cast<size_t>(rows)), last(first);
    // Up to the end of the ring, then from its start.
    for (int64_t at = begin; at < end;) {
      const int64_t slot = at % slots_, count = std::min(end - at, slots_ - slot);
      for (int64_t row = 0; row < rows; ++row) {
        const Span seen = span_of_query((first_row + row) / group_);
        first[static_cast<size_t>(row)] = seen.first - at;
        last[static_cast<size_t>(row)] = std::min(seen.last - at, count);
      }
      simd_.attend({.dtype = keys().dtype,
                    .keys = slot_address(keys(), head, slot),
                    .values = slot_address(values(), head, slot),
                    .key_step = keys().strides[2],
                    .value_step = values().strides[2],
                    .slots = count,
                    .width = width_,
                    .pitch = pitch_,
                    .rows = rows,
                    .queries = queries.data(),
                    .first = first.data(),
                    .last = last.data(),
                    .largest = &largest_[static_cast<size_t>(task * tile_rows_)],
                    .total = &total_[static_cast<size_t>(task * tile_rows_)],
                    .sums = sums});
      at += count;
    }
  }

  // The coordinates of a row of queries or results in [batch, heads, queries].
  Dims place_of(int64_t head, int64_t row) const {
    const int64_t key_heads = keys().shape[1];
    return {head / key_heads, head % key_heads * group_ + row % group_, row / group_};
  }
  static int64_t offset_of(const TensorView& view, const Dims& place) {
    int64_t offset = 0;
    for (int axis = 0; axis < place.rank(); ++axis) offset += place[axis] * view.strides[axis];
    return offset;
  }
  void load_query(int64_t head, int64_t row, float* to) const {
    widen_row(simd_, q().dtype, q().data, offset_of(q(), place_of(head, row)), q().strides[3],
              width_, to);
    for (int64_t c = 0; c < width_; ++c) to[c] *= static_cast<float>(spec_.scale);
  }
  const char* slot_address(const TensorView& view, int64_t head, int64_t slot) const {
    const int64_t key_heads = keys().shape[1];
    return element_address(view, offset_of(view, {head / key_heads, head % key_heads, slot}));
  }

  void join(int64_t number) {
    const int64_t head = number / rows_, row = number % rows_;
    const int64_t task = (head * tiles_ + row / tile_rows_) * chunks_;
    const auto part = [&](int64_t chunk) {
      return static_cast<size_t>((task + chunk) * tile_rows_ + row % tile_rows_);
    };
    float largest = -INFINITY;
    for (int64_t i = 0; i < chunks_; ++i) largest = std::max(largest, largest_[part(i)]);
    std::vector<float> sum(static_cast<size_t>(width_), 0.0f);
    double total = 0;
    for (int64_t i = 0; i < chunks_; ++i) {
      if (total_[part(i)] == 0) continue;
      const float weight = std::exp(largest_[part(i)] - largest);
      total += static_cast<double>(weight) * total_[part(i)];
      const float* sums = &sums_[part(i) * static_cast<size_t>(pitch_)];
      for (int64_t c = 0; c < width_; ++c) sum[static_cast<size_t>(c)] += weight * sums[c];
    }
    const auto scale = total == 0 ? 0.0f : static_cast<float>(1 / total);
    for (float& value : sum) value *= scale;
    const TensorView &out = call_.outputs[0], &log_sum_exp = call_.outputs[1];
    const Dims place = place_of(head, row);
    const int64_t offset = offset_of(out, place);
    const int64_t run = out.strides[3] == 1 ? width_ : 1;
    for (int64_t c = 0; c < width_; c += run)
      simd_.store(out.dtype, &sum[static_cast<size_t>(c)],
                  element_address(out, offset + c * out.strides[3]), run);
    log_sum_exp.as<float>()[offset_of(log_sum_exp, place)] =
        total == 0 ? -INFINITY : static_cast<float>(largest + std::log(total));
  }

  const KernelCall& call_;
  const CpuContext& context_;
  const SimdKernels& simd_;
  const AttentionSpec& spec_;
  const int64_t group_, slots_, width_, pitch_, rows_, tile_rows_, tiles_, first_, chunk_;
  int64_t chunks_ = 1;
  std::vector<float> largest_, total_, sums_;  // by task and row of its tile
};

}  // namespace

void cached_attention_kernel(const KernelCall& call, const CpuContext& context) {
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  const TensorView &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2];
  const int64_t length = position_of(call.inputs[3]) + q.shape[2];
  const auto lies_together = [](const TensorView& x) {
    return x.strides[3] == 1 || x.shape[3] == 1;
  };
  // Slots in the order of their positions are ordinary keys.
  const bool is_in_order = length <= k.shape[2];
  if (is_in_order && (q.shape[2] >= kFlashQueries || !lies_together(k) || !lies_together(v)))
    return flash_forward({.q = q,
                          .k = part_of(k, 2, 0, length),
                          .v = part_of(v, 2, 0, length),
                          .out = call.outputs[0],
                          .log_sum_exp = call.outputs[1],
                          .scale = static_cast<float>(spec.scale),
                          .mask = {.causal = true,
                                   .alignment = AttentionMask::Alignment::bottom_right,
                                   .window = spec.mask.window}},
                         context);
  if (!lies_together(k) || !lies_together(v))
    throw Error(ErrorKind::unsupported,
                "the elements of a row of cached keys or values do not lie together",
                "keep the cache as [batch, heads, slots, width]");
  CachedAttention(call, context).run();
}

}  // namespace ridgeline
