// How a kernel's domain reaches an element of a value: views, broadcasts and reshapes on the way.
#pragma once

#include <optional>
#include <vector>

#include "graph/layout.h"

namespace ridgeline {

// A tensor as it is seen: strides per axis of `shape`.
struct Placed {
  Shape shape;
  int64_t offset = 0;
  Strides strides;
};

struct AccessStep {
  const Node* view = nullptr;  // or none: `shape` is broadcast or reshaped to
  bool broadcasts = false;
  Shape shape = {};
};

// From the domain inwards: the last step is the one next to the value.
using Access = std::vector<AccessStep>;

// What the domain sees of a tensor; nothing where strides cannot express it. Axes of size 1 have
// stride 0, so that equal accesses are equal strides.
std::optional<Placed> see_through(Placed tensor, const Access& access);

inline Placed contiguous(const Shape& shape) {
  return {shape, 0, contiguous_strides(shape)};
}

// How a value of shape `from` lies in a domain: as all of it, or as one element per row. Nothing:
// otherwise.
std::optional<Access> access_in_domain(const Shape& from, const Shape& domain);

}  // namespace ridgeline
