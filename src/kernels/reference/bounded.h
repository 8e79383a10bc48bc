// Numbers in fp64 beside how far a kernel may be from them that computes in fp32 and stores in the
// tensors' dtypes: running error analysis, one rule per op.
//
//   const Bounded product = apply(Op::multiply, {{a, b}}, DType::f32);
//   BoundedSum sum; for (...) sum.add(product); const Bounded mean = sum.total();
//   is_right(got, stored(mean, DType::bf16));
#pragma once

#include <cstdint>
#include <span>

#include "graph/dtype.h"
#include "graph/op.h"

namespace ridgeline {

struct Bounded {
  double value = 0;
  double error = 0;  // 0: exact; infinite: anything may come out
};

// How far a sum of n terms in fp32 is from the true one, in parts of the sum of their absolute
// values: one rounding, and the standard deviation of n roundings of a growing sum.
double sum_rounding(int64_t n);

// As a tensor of this dtype holds it.
Bounded stored(Bounded x, DType dtype);

// A pointwise op in fp32. Throws an internal error for other ops.
Bounded apply(Op op, std::span<const Bounded> operands, DType dtype = DType::f32);
inline Bounded apply(Op op, std::initializer_list<Bounded> operands, DType dtype = DType::f32) {
  return apply(op, std::span(operands.begin(), operands.size()), dtype);
}
inline Bounded times(const Bounded& a, const Bounded& b) {
  return apply(Op::multiply, {a, b});
}

// A sum in fp32, in any order.
class BoundedSum {
 public:
  // `independent`: a rounding of the term that has nothing to do with those of the others.
  void add(const Bounded& term, double independent = 0);
  int64_t count() const { return count_; }
  // `cut_off`: how many times the growing sum was cut off to fp32 instead of rounded, as tensor
  // cores do it, all in one direction.
  Bounded total(int64_t cut_off = 0) const;

 private:
  Bounded sum_;
  double magnitude_ = 0;  // the sum of absolute values
  double independent_ = 0, independent_squares_ = 0;
  int64_t count_ = 0;
};

// How often tensor cores add to the sums of a product: once for each 32 bytes of a row.
int64_t tensor_core_steps(DType dtype, int64_t depth);

// A constant that a kernel holds in fp32.
inline Bounded as_single(double value) {
  return stored({value, 0}, DType::f32);
}

// The distance in parts of what is allowed: at most 1 is right, NaN where only one is a number.
double error_share(double got, const Bounded& expected);

}  // namespace ridgeline
