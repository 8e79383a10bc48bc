// Single elements of what a generated kernel computes, in fp64 from the operands that it reads.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kernels/reference/bounded.h"
#include "plan/fused_kernel.h"

namespace ridgeline {

class FusedElements {
 public:
  // `read` gives the element of an input so many elements behind its storage's first; behind the
  // inputs come the two matrices of the kernel's product.
  using Read = std::function<double(size_t input, int64_t offset)>;

  FusedElements(const FusedKernel& kernel, Read read);

  // At a place of the domain. A fold of columns has one value in each column, whatever the row.
  Bounded at(size_t result, const Dims& place);
  // Where the result of that place goes, in elements behind its storage's first.
  int64_t offset(size_t result, const Dims& place) const;
  // How many steps one place takes, and how many more a row, or a column, does once.
  int64_t work() const;
  int64_t work_of_fold() const;

 private:
  bool is_fold(uint32_t step) const;
  // Computes the steps up to `last` at a place; folds along the row come from folded_.
  void compute(uint32_t last, const Dims& place);
  Bounded product_at(int64_t offset) const;
  void fold_row(const Dims& place);
  Bounded fold_column(uint32_t step, const Dims& place);

  const FusedKernel& kernel_;
  Read read_;
  std::vector<Bounded> values_;                 // by step, at the place under way
  std::vector<std::optional<Bounded>> folded_;  // by step, of the row that was folded last
  std::optional<Dims> row_;
  std::vector<Bounded> operands_;  // of the step under way
};

}  // namespace ridgeline
