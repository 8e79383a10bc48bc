// How a kernel's domain maps to the elements of a value, through views, broadcasts and reshapes.
#pragma once

#include <optional>
#include <vector>

#include "graph/layout.h"

namespace ridgeline {

// A view of a tensor: strides per axis of `shape`.
struct Placed {
  Shape shape;
  int64_t offset = 0;
  Strides strides;
};

struct AccessStep {
  const Node* view = nullptr;  // null: a broadcast or reshape to `shape`
  bool broadcasts = false;
  Shape shape = {};
};

// From the domain inwards: the last step is the one next to the value.
using Access = std::vector<AccessStep>;

// The tensor as the domain sees it; none where strides cannot express it. Axes of size 1 get stride
// 0, so that equal accesses have equal strides.
std::optional<Placed> see_through(Placed tensor, const Access& access);

inline Placed contiguous(const Shape& shape) {
  return {shape, 0, contiguous_strides(shape)};
}

// How a value of shape `from` maps to a domain: as all of it, or as one element per row. Otherwise
// none.
std::optional<Access> access_in_domain(const Shape& from, const Shape& domain);

}  // namespace ridgeline
