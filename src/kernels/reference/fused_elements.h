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
  // Returns an element of an input, by its offset in elements from the start of its storage. The
  // two matrices of the kernel's product follow the inputs.
  using Read = std::function<double(size_t input, int64_t offset)>;

  FusedElements(const FusedKernel& kernel, Read read);

  // The result at coordinates of the domain. A fold of columns has one value per column.
  Bounded at(size_t result, const Dims& place);
  // The offset of that result, in elements from the start of its storage.
  int64_t offset(size_t result, const Dims& place) const;
  // Steps per element, and further steps once per row or column.
  int64_t work() const;
  int64_t work_of_fold() const;

 private:
  bool is_fold(uint32_t step) const;
  // Computes the steps up to `last` at `place`; folds along the row come from folded_.
  void compute(uint32_t last, const Dims& place);
  Bounded product_at(int64_t offset) const;
  void fold_row(const Dims& place);
  Bounded fold_column(uint32_t step, const Dims& place);

  const FusedKernel& kernel_;
  Read read_;
  std::vector<Bounded> values_;                 // by step, at the current place
  std::vector<std::optional<Bounded>> folded_;  // by step, of the row that was folded last
  std::optional<Dims> row_;
  std::vector<Bounded> operands_;  // of the current step
};

}  // namespace ridgeline
