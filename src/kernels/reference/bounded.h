// Numbers in fp64 with a bound on how far from them a kernel may be that computes in fp32 and
// stores in the tensors' dtypes: running error analysis, one rule per op.
//
//   const Bounded product = apply(Op::multiply, {a, b});
//   BoundedSum sum; for (...) sum.add(product); const Bounded total = sum.total();
//   const bool is_right = error_share(got, stored(total, DType::bf16)) <= 1;
#pragma once

#include <cstdint>
#include <span>

#include "graph/dtype.h"
#include "graph/op.h"

namespace ridgeline {

struct Bounded {
  double value = 0;
  double error = 0;  // 0: exact; infinite: any result is right
};

// The error of a sum of n terms in fp32, relative to the sum of their absolute values: one
// rounding, and the standard deviation of n roundings of a growing sum.
double sum_rounding(int64_t n);

// The number after rounding to this dtype.
Bounded stored(Bounded x, DType dtype);

// A pointwise op in fp32. Throws an internal error for other ops.
Bounded apply(Op op, std::span<const Bounded> operands, DType dtype = DType::f32);
inline Bounded apply(Op op, std::initializer_list<Bounded> operands, DType dtype = DType::f32) {
  return apply(op, std::span(operands.begin(), operands.size()), dtype);
}
inline Bounded times(const Bounded& a, const Bounded& b) {
  return apply(Op::multiply, {a, b});
}

// A sum in fp32, in any order of additions.
class BoundedSum {
 public:
  // `independent`: a rounding error of the term that is independent of those of the others.
  void add(const Bounded& term, double independent = 0);
  int64_t count() const { return count_; }
  // `cut_off`: how many times the growing sum was truncated to fp32 instead of rounded, as tensor
  // cores do, all in one direction.
  Bounded total(int64_t cut_off = 0) const;

 private:
  Bounded sum_;
  double magnitude_ = 0;  // the sum of absolute values
  double independent_ = 0, independent_squares_ = 0;
  int64_t count_ = 0;
};

// How many times tensor cores add to the sums of a product: once per 32 bytes of a row.
int64_t tensor_core_steps(DType dtype, int64_t depth);

// A constant that a kernel holds in fp32.
inline Bounded as_single(double value) {
  return stored({value, 0}, DType::f32);
}

// Returns the error as a share of the bound: at most 1 is right; NaN for an unexpected NaN.
double error_share(double got, const Bounded& expected);

}  // namespace ridgeline
