// Walking several strided tensors of one shape together, with as few axes as their strides allow.
#pragma once

#include <span>
#include <vector>

#include "kernels/tensor_view.h"

namespace ridgeline {

struct Walk {
  Shape shape;                   // merged axes, at least one
  std::vector<Strides> strides;  // per tensor, 0 where it broadcasts

  int64_t outer_count() const;  // product of all axes but the last
  // The offset of element `flat`, or of row `outer` along the last axis, of a tensor, in elements.
  int64_t element_offset(int tensor, int64_t flat) const;
  int64_t row_offset(int tensor, int64_t outer) const;
};

// All tensors broadcast to `shape`. Adjacent axes merge where the strides of every tensor allow it.
Walk make_walk(const Shape& shape, std::span<const TensorView> tensors);

// The address of an element, whatever the dtype.
inline char* element_address(const TensorView& view, int64_t offset) {
  return static_cast<char*>(view.data) + offset * info(view.dtype).size;
}

// The axes before the last two: the batch of a matrix product, as a separate view.
inline TensorView batch_of(TensorView view) {
  const auto leading = static_cast<size_t>(view.shape.rank() - 2);
  view.shape = Shape(view.shape.span().first(leading));
  view.strides = Strides(view.strides.span().first(leading));
  return view;
}

// [begin, end) of an axis.
inline TensorView part_of(TensorView view, int axis, int64_t begin, int64_t end) {
  view.data = element_address(view, begin * view.strides[axis]);
  view.shape[axis] = end - begin;
  return view;
}

}  // namespace ridgeline
