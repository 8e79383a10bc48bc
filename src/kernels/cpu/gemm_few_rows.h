// Products of so few rows that packing the right operand would take longer than multiplying by it:
// the layers of a model that decodes one token.
#pragma once

#include "kernels/cpu/gemm.h"

namespace ridgeline {

// Whether rows are few and the columns of the right operand contiguous, as those of `linear` are.
bool has_few_rows(const Gemm& product);

// Reads the right operand once, in place. `pool`: null for the calling thread alone. The bits of a
// row depend neither on the threads nor on the other rows.
void gemm_few_rows(const Gemm& product, Isa isa, ThreadPool* pool);

}  // namespace ridgeline
