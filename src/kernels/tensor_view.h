// A tensor as kernels see it: its address, shape and strides.
#pragma once

#include "graph/dtype.h"
#include "graph/shape.h"

namespace ridgeline {

// Strides count elements and may be 0 (broadcast) or anything else a view can produce.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;
  bool host_scalar = false;  // a constant: `data` is one element in host memory, all strides are 0
  bool is_kept = false;      // no kernel of the graph writes it

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace ridgeline
