// Matrix products by definition: a dot product for every element.
#include "kernels/cpu/gemm_elements.h"
#include "kernels/cpu/gemm_ladder.h"

namespace ridgeline {

void gemm_naive(const GemmOperands& operands, const CpuContext& context) {
  const int64_t n = operands.b.shape[1], depth = operands.b.shape[0];
  with_element(operands.out.dtype, [&](auto element) {
    using Element = decltype(element);
    using Stored = typename Element::Stored;
    const Stored *a = operands.a.as<Stored>(), *b = operands.b.as<Stored>();
    Stored* out = operands.out.as<Stored>();
    context.pool.for_range(operands.a.shape[0], 1, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (int64_t k = 0; k < depth; ++k)
            sum += Element::widen(a[i * depth + k]) * Element::widen(b[k * n + j]);
          out[i * n + j] = Element::narrow(sum);
        }
    });
  });
}

void gemv_naive(const GemmOperands& operands, const CpuContext& context) {
  gemm_naive(operands, context);  // for one column
}

}  // namespace ridgeline
