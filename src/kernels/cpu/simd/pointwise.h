// Entries of the SimdKernels table that are in files of their own.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd_kernels.h"

namespace ridgeline::RIDGELINE_ISA {

void pointwise(Op op, const PointwiseOperand* operands, float* out, int64_t count);
void compare_integers(Op op, const PointwiseOperand* operands, float* out, int64_t count);
void load(DType dtype, const void* source, float* out, int64_t count);
void attend(const CachedRun& run);
void multiply_few_rows(const FewRows& product);
void adamw(const AdamWFactors& factors, float* p, const float* g, float* m, float* v,
           int64_t count);
void store(DType dtype, const float* source, void* out, int64_t count);

}  // namespace ridgeline::RIDGELINE_ISA
