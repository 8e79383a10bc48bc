// The attributes of an AdamW update: everything but its tensors.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace ridgeline {

enum class AdamWVariant : uint8_t {
  cs336,    // eps added to the uncorrected root; weight decay last
  pytorch,  // weight decay first; eps added to the corrected root
};

// Inputs of an adamw_update node of n parameters, in this order: the step's scalars (below), the
// factor on gradients if `scaled`, n parameters, n gradients (flat), n first moments, n second
// moments, and if `copied` n copies of the parameters in 16 bits. Results: n parameters, n first
// moments, n second moments and n copies, in the storage of the inputs.
struct AdamWSpec {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  AdamWVariant variant = AdamWVariant::cs336;
  bool scaled = false;
  bool skips = false;   // if scaled: a factor of 0 skips the step
  bool copied = false;  // also writes the parameters rounded to 16 bits, for products
  // Bit i: the update computes gradient i itself, as a product of two matrices in 16 bits, rounded
  // to 16 bits. The left matrix takes the gradient's place among the inputs, the right ones follow
  // all other inputs, in order. Only plans make such nodes (update_products.h).
  uint64_t products = 0;

  uint32_t first_parameter() const { return scaled ? 2 : 1; }
  uint32_t results_of_each() const { return copied ? 4 : 3; }
  bool is_product(size_t tensor) const { return tensor < 64 && (products >> tensor & 1) != 0; }
  // The index of a gradient's right matrix among the inputs of a node of `count` parameters.
  size_t right_matrix(size_t tensor, size_t count) const {
    const uint64_t before = products & ((uint64_t{1} << tensor) - 1);
    return first_parameter() + (results_of_each() + 1) * count +
           static_cast<size_t>(std::popcount(before));
  }
};

// The scalars that change from step to step, read from an fp32 tensor.
enum class AdamWScalar : uint8_t {
  learning_rate,
  first_correction,   // 1 - beta1^t
  second_correction,  // 1 - beta2^t
};
inline constexpr int64_t kAdamWScalars = 3;

}  // namespace ridgeline
