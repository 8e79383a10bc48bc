// Single elements of what a node computes, in fp64 from the inputs that its kernel read, with a
// bound on a kernel's error: any kernel can be checked at any size, where it runs.
//
//   ElementCall call{node, operands};
//   const Bounded expected = element(call, {.output = 0, .at = {3, 5}, .dtype = DType::bf16});
#pragma once

#include <functional>
#include <span>
#include <unordered_map>

#include "graph/graph.h"
#include "kernels/reference/bounded.h"

namespace ridgeline {

struct ElementOperand {
  Shape shape;
  DType dtype = DType::f32;
  std::function<double(const Dims& at)> read;
};

struct ElementCall {
  const Node& node;
  std::span<const ElementOperand> inputs;
  bool on_tensor_cores = false;                             // products of 16-bit and TF32 operands
  mutable std::unordered_map<int64_t, Bounded> known = {};  // results that elements share

  // Returns the shared result `key`, computed by the first element that needs it.
  template <class Compute>
  Bounded once(int64_t key, Compute compute) const {
    const auto found = known.find(key);
    return found != known.end() ? found->second : known.emplace(key, compute()).first->second;
  }
};

struct ElementPlace {
  size_t output = 0;
  Dims at;
  DType dtype = DType::f32;  // of the stored output
};

// Returns an infinite error for ops without a rule.
Bounded element(const ElementCall& call, const ElementPlace& place);

// How many elements of the inputs are read for one element of an output.
struct ElementWork {
  int64_t amortised = 1;  // if all elements are computed one after the other
  int64_t single = 1;     // if one element is computed by itself
};
ElementWork element_work(const ElementCall& call, size_t output);

// attention_elements.cc; the error is infinite if there is a score function.
Bounded attention_element(const ElementCall& call, const ElementPlace& place);
Bounded attention_gradient_element(const ElementCall& call, const ElementPlace& place);
ElementWork attention_work(const ElementCall& call);

// adamw_elements.cc
Bounded adamw_element(const ElementCall& call, const ElementPlace& place);
int64_t adamw_reads(const ElementCall& call, size_t output);  // elements read for one element

}  // namespace ridgeline
