// Moves tiles between tensors of any storage and strides and contiguous fp32 scratch.
#pragma once

#include "kernels/cpu/simd/flash_kernels.h"
#include "kernels/cpu/simd/flash_matmul.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

inline constexpr int64_t kMaxHeadDim = 256;

// Rows of fp32, padded with zeros to a multiple of kLanes columns.
struct FloatRows {
  const float* data;
  int64_t stride;
};

template <FlashStorage kStorage>
struct ElementOf {
  using Type = uint16_t;
};
template <>
struct ElementOf<FlashStorage::f32> {
  using Type = float;
};

// Calls f with the storage as a template argument.
template <class F>
HWY_INLINE void with_storage(FlashStorage storage, F f) {
  switch (storage) {
    case FlashStorage::f32:
      return f(ElementOf<FlashStorage::f32>());
    case FlashStorage::bf16:
      return f(ElementOf<FlashStorage::bf16>());
    case FlashStorage::f16:
      return f(ElementOf<FlashStorage::f16>());
  }
}

HWY_INLINE Floats widen(ElementOf<FlashStorage::f32>, const float* from) {
  return hn::LoadU(Wide(), from);
}
HWY_INLINE Floats widen(ElementOf<FlashStorage::bf16>, const uint16_t* from) {
  return widen_bf16(from);
}
HWY_INLINE Floats widen(ElementOf<FlashStorage::f16>, const uint16_t* from) {
  return widen_f16(from);
}

HWY_INLINE void narrow(ElementOf<FlashStorage::f32>, Floats value, float* to) {
  hn::StoreU(value, Wide(), to);
}
HWY_INLINE void narrow(ElementOf<FlashStorage::bf16>, Floats value, uint16_t* to) {
  narrow_bf16(value, to);
}
HWY_INLINE void narrow(ElementOf<FlashStorage::f16>, Floats value, uint16_t* to) {
  narrow_f16(value, to);
}

// Copies rows to `to`, widened and padded with zeros.
inline void load_rows(const FlashRows& from, FlashRange rows, int64_t head_dim, float* to,
                      int64_t to_stride) {
  with_storage(from.storage, [&](auto kind) {
    using Element = typename decltype(kind)::Type;
    Element line[kMaxHeadDim + kLanes];
    const int64_t whole = from.column_stride == 1 ? head_dim / kLanes * kLanes : 0;
    const int64_t padded = round_up(head_dim, kLanes);
    for (int64_t row = rows.begin; row < rows.end; ++row, to += to_stride) {
      const Element* source = static_cast<const Element*>(from.data) + row * from.row_stride;
      for (int64_t i = 0; i < whole; i += kLanes)
        hn::StoreU(widen(kind, source + i), Wide(), to + i);
      if (whole == head_dim) continue;
      for (int64_t i = whole; i < padded; ++i)
        line[i] = i < head_dim ? source[i * from.column_stride] : Element{0};
      for (int64_t i = whole; i < padded; i += kLanes)
        hn::StoreU(widen(kind, line + i), Wide(), to + i);
    }
  });
}

// Narrows rows to the storage of `to`, each times its own factor if there are factors.
inline void store_rows(const float* from, int64_t from_stride, const float* factors,
                       const FlashRows& to, FlashRange rows, int64_t head_dim) {
  with_storage(to.storage, [&](auto kind) {
    using Element = typename decltype(kind)::Type;
    Element line[kMaxHeadDim + kLanes];
    const int64_t whole = to.column_stride == 1 ? head_dim / kLanes * kLanes : 0;
    for (int64_t row = rows.begin; row < rows.end; ++row, from += from_stride) {
      Element* target = static_cast<Element*>(to.data) + row * to.row_stride;
      const Floats factor = hn::Set(Wide(), factors != nullptr ? factors[row - rows.begin] : 1.0f);
      for (int64_t i = 0; i < whole; i += kLanes)
        narrow(kind, hn::Mul(hn::LoadU(Wide(), from + i), factor), target + i);
      for (int64_t i = whole; i < head_dim; i += kLanes)
        narrow(kind, hn::Mul(hn::LoadU(Wide(), from + i), factor), line + i);
      for (int64_t i = whole; i < head_dim; ++i) target[i * to.column_stride] = line[i];
    }
  });
}

inline bool is_plain(const FlashRows& rows, int64_t head_dim) {
  return rows.storage == FlashStorage::f32 && rows.column_stride == 1 && head_dim % kLanes == 0;
}

// The rows in place if they can be used as they are, else a copy.
inline FloatRows view_rows(const FlashRows& from, FlashRange rows, int64_t head_dim, float* copy) {
  if (is_plain(from, head_dim))
    return {static_cast<const float*>(from.data) + rows.begin * from.row_stride, from.row_stride};
  const int64_t stride = round_up(head_dim, kLanes);
  load_rows(from, rows, head_dim, copy, stride);
  return {copy, stride};
}

// Loads four columns of kLanes rows: lane block b holds row 4 * b. Combine and Interleave are found
// by argument-dependent lookup, since the one-lane fallback has neither.
template <class D>
HWY_INLINE hn::Vec<D> load_quads(D d, const float* from, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    const int64_t rows_below = hn::MaxLanes(half);
    return Combine(d, load_quads(half, from + rows_below * stride, stride),
                   load_quads(half, from, stride));
  }
}

// Transposes kLanes rows of `columns` values to as many rows of kLanes values, times factor.
template <class D>
HWY_INLINE void transpose_block(D d, const float* from, int64_t stride, int64_t columns,
                                float factor, float* to, int64_t to_stride) {
  if constexpr (hn::MaxLanes(D()) < 4) {
    for (int64_t k = 0; k < columns; ++k) to[k * to_stride] = from[k] * factor;
  } else {
    const hn::Repartition<double, D> pairs;
    const auto scale = hn::Set(d, factor);
    for (int64_t k = 0; k < columns; k += 4) {
      const auto r0 = load_quads(d, from + k, stride);
      const auto r1 = load_quads(d, from + k + stride, stride);
      const auto r2 = load_quads(d, from + k + 2 * stride, stride);
      const auto r3 = load_quads(d, from + k + 3 * stride, stride);
      const auto low01 = hn::BitCast(pairs, InterleaveLower(d, r0, r1));
      const auto high01 = hn::BitCast(pairs, InterleaveUpper(d, r0, r1));
      const auto low23 = hn::BitCast(pairs, InterleaveLower(d, r2, r3));
      const auto high23 = hn::BitCast(pairs, InterleaveUpper(d, r2, r3));
      const auto store = [&](auto values, int64_t column) {
        hn::StoreU(hn::Mul(hn::BitCast(d, values), scale), d, to + column * to_stride);
      };
      store(InterleaveLower(pairs, low01, low23), k);
      store(InterleaveUpper(pairs, low01, low23), k + 1);
      store(InterleaveLower(pairs, high01, high23), k + 2);
      store(InterleaveUpper(pairs, high01, high23), k + 3);
    }
  }
}

// factor * rows^T as panels of kPanel columns: element (k, row) at panel(row) + k * kPanel. The
// rows are padded with zeros to a multiple of kLanes; `copy` holds kLanes padded rows.
inline Panels transpose_rows(const FlashRows& from, FlashRange rows, int64_t head_dim, float factor,
                             float* to, float* copy) {
  const int64_t padded = round_up(head_dim, kLanes);
  const int64_t panel_stride = padded * kPanel;
  for (int64_t row = rows.begin; row < rows.end; row += kLanes) {
    const int64_t end = row + kLanes < rows.end ? row + kLanes : rows.end;
    FloatRows source;
    if (end == row + kLanes) {
      source = view_rows(from, {row, end}, head_dim, copy);
    } else {
      for (int64_t i = 0; i < kLanes * padded; i += kLanes)
        hn::StoreU(hn::Zero(Wide()), Wide(), copy + i);
      load_rows(from, {row, end}, head_dim, copy, padded);
      source = {copy, padded};
    }
    const int64_t column = row - rows.begin;
    float* target = to + column / kPanel * panel_stride + column % kPanel;
    transpose_block(Wide(), source.data, source.stride, padded, factor, target, kPanel);
  }
  return {to, kPanel, panel_stride};
}

// Suballocates a thread's scratch; each piece starts on a cache line.
class Scratch {
 public:
  explicit Scratch(float* base) : base_(base) {}
  float* take(int64_t floats) {
    float* piece = base_ + used_;
    used_ += round_up(floats, 16);
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  float* base_;
  int64_t used_ = 0;
};

// Divides memory into the parts of a kernel's scratch, and tells how many floats they take.
template <class Parts>
Parts carve(float* floats, int64_t head_dim) {
  Scratch scratch(floats);
  return Parts::carve(scratch, head_dim);
}
template <class Parts>
int64_t floats_of(int64_t head_dim) {
  Scratch scratch(nullptr);
  Parts::carve(scratch, head_dim);
  return scratch.used();
}

}  // namespace
}  // namespace ridgeline::RIDGELINE_ISA
