// Which steps of a generated kernel a product's epilogue can compute.
#pragma once

#include <optional>
#include <vector>

#include "plan/epilogue.h"
#include "plan/fused_kernel.h"

namespace ridgeline {

// Whether element i of the domain, counted in order, is the operand's element i % period.
bool lies_in_order(const Shape& domain, const FusedOperand& operand, int64_t period);

// By step: the epilogue whose result the step is, where the product is what step `product` loads
// and has rows of `columns` elements. Activations are recognised by their values, however they are
// written.
std::vector<std::optional<Epilogue>> epilogue_forms(const FusedKernel& kernel, uint32_t product,
                                                    int64_t columns);

}  // namespace ridgeline
