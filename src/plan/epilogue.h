// What a library does with the sums of a product before it rounds and writes them.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace ridgeline {

enum class Activation : uint8_t {
  none,
  relu,
  gelu,  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which is what cuBLASLt computes
};

// A tensor that an epilogue reads, in the order of its storage.
struct EpilogueOperand {
  Value storage;
  int64_t offset = 0;  // in elements
};

// result = activation(scale * sum + addend + bias), in fp32 and rounded once.
struct Epilogue {
  double scale = 1;
  std::optional<EpilogueOperand> addend = {};  // of the result's size and dtype
  std::optional<EpilogueOperand> bias = {};    // one element per column, likewise
  Activation activation = Activation::none;

  bool does_nothing() const {
    return scale == 1 && !addend && !bias && activation == Activation::none;
  }
};
std::string to_string(const Epilogue& epilogue);  // "scaled, + tensor, + bias, gelu"

}  // namespace ridgeline
