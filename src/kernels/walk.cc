#include "kernels/walk.h"

namespace ridgeline {

int64_t Walk::outer_count() const {
  int64_t count = 1;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) count *= shape[axis];
  return count;
}

int64_t Walk::element_offset(int tensor, int64_t flat) const {
  const int64_t width = shape.back();
  return row_offset(tensor, flat / width) +
         flat % width * strides[static_cast<size_t>(tensor)].back();
}

int64_t Walk::row_offset(int tensor, int64_t outer) const {
  const Strides& steps = strides[static_cast<size_t>(tensor)];
  int64_t offset = 0;
  for (int axis = shape.rank() - 2; axis >= 0; --axis) {
    offset += (outer % shape[axis]) * steps[axis];
    outer /= shape[axis];
  }
  return offset;
}

Walk make_walk(const Shape& shape, std::span<const TensorView> tensors) {
  // Full strides first: one per axis of `shape`, 0 where the tensor has no such axis or size 1.
  std::vector<Strides> full;
  for (const TensorView& tensor : tensors) {
    Strides strides = Dims::filled(shape.rank(), 0);
    const int extra = shape.rank() - tensor.shape.rank();
    for (int axis = extra; axis < shape.rank(); ++axis)
      if (tensor.shape[axis - extra] != 1) strides[axis] = tensor.strides[axis - extra];
    full.push_back(strides);
  }
  Walk walk;
  walk.strides.resize(tensors.size());
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    bool merges = walk.shape.rank() > 0;
    for (size_t t = 0; merges && t < full.size(); ++t)
      merges = walk.strides[t].back() == full[t][axis] * shape[axis];
    if (!merges) walk.shape.push_back(1);
    walk.shape.back() *= shape[axis];
    for (size_t t = 0; t < full.size(); ++t) {
      if (!merges) walk.strides[t].push_back(0);
      walk.strides[t].back() = full[t][axis];
    }
  }
  if (walk.shape.rank() == 0) {
    walk.shape.push_back(1);
    for (Strides& strides : walk.strides) strides.push_back(0);
  }
  return walk;
}

}  // namespace ridgeline
