// Products of so few rows that packing the right operand takes longer than multiplying by it: the
// layers of a model that decodes one token.
#pragma once

#include "kernels/cpu/gemm.h"

namespace ridgeline {

// Whether they are few, and the columns of the right operand lie together, as `linear` has them.
bool has_few_rows(const Gemm& product);

// Reads the right operand once, where it lies. Null: the calling thread alone. The bits of a row
// depend neither on the threads nor on the other rows.
void gemm_few_rows(const Gemm& product, Isa isa, ThreadPool* pool);

}  // namespace ridgeline
