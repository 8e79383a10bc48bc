// Single elements of what a node computes, in fp64 from the inputs that its kernel got, and how far
// a kernel may be from them. So any kernel can be checked at any size, where it runs.
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
  mutable std::unordered_map<int64_t, Bounded> known = {};  // what elements share

  // Computed by the first element that asks for it.
  template <class Compute>
  Bounded once(int64_t key, Compute compute) const {
    const auto found = known.find(key);
    return found != known.end() ? found->second : known.emplace(key, compute()).first->second;
  }
};

struct ElementPlace {
  size_t output = 0;
  Dims at;
  DType dtype = DType::f32;  // that the kernel writes
};

// An infinite error where nothing is known of the op.
Bounded element(const ElementCall& call, const ElementPlace& place);

// How many elements of the inputs one element of an output takes.
struct ElementWork {
  int64_t in_turn = 1;  // when all are computed one after the other
  int64_t alone = 1;
};
ElementWork element_work(const ElementCall& call, size_t output);

// attention_elements.cc; an infinite error for a function of scores.
Bounded attention_element(const ElementCall& call, const ElementPlace& place);
Bounded attention_gradient_element(const ElementCall& call, const ElementPlace& place);
ElementWork attention_work(const ElementCall& call);

// adamw_elements.cc
Bounded adamw_element(const ElementCall& call, const ElementPlace& place);
int64_t adamw_reads(const ElementCall& call, size_t output);  // for one element

}  // namespace ridgeline
