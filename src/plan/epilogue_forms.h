// What of a generated kernel a product's epilogue could do.
#pragma once

#include <optional>
#include <vector>

#include "plan/epilogue.h"
#include "plan/fused_kernel.h"

namespace ridgeline {

// Whether element i of the domain, counted in order, is the operand's element i % period.
bool lies_in_order(const Shape& domain, const FusedOperand& operand, int64_t period);

// By step: the epilogue whose result the step is, where the product is what step `product` loads
// and has rows of `columns` elements. It does not matter how an activation is written: functions
// are told by their values.
std::vector<std::optional<Epilogue>> epilogue_forms(const FusedKernel& kernel, uint32_t product,
                                                    int64_t columns);

}  // namespace ridgeline
