// Checks each kernel of a run in isolation: its results against fp64 arithmetic on its inputs,
// within a bound on rounding errors. Small results are compared whole, large ones at their edges
// and at random elements.
//
//   KernelChecker checker(device, seed);
//   executable.set_observer(&checker);
//   executable.run();
//   checker.report("full_step.", record.verification);
#pragma once

#include <string>
#include <vector>

#include "kernels/reference/elements.h"
#include "measure/record.h"
#include "runtime/kernel_observer.h"

namespace ridgeline {

class KernelChecker : public KernelObserver {
 public:
  // The device must outlive the checker.
  KernelChecker(const Device& device, uint64_t seed);
  ~KernelChecker() override;

  void before(const KernelRun& run) override;
  void after(const KernelRun& run) override;

  // Adds the first wrong results under their own names, then the worst error of all kernels as
  // "<prefix>kernels" and of updates as "<prefix>optimizer", both as a fraction of the allowed
  // error.
  void report(const std::string& prefix, Verification& verification) const;
  // The first wrong results, each with the error of its worst element.
  const std::vector<TensorError>& wrong() const { return wrong_; }

 private:
  struct Target {  // a result of the current kernel
    TensorView memory;
    std::string name;
  };
  struct Expected {
    size_t target = 0;
    int64_t offset = 0;  // in elements
    Bounded value;
  };
  void expect_node(const KernelRun& run);
  void expect_product(const KernelRun& run);
  void expect_fused(const KernelRun& run);
  std::vector<Dims> places(const Shape& shape, const ElementWork& work, size_t results = 1);

  const Device& device_;
  bool is_host_;  // whether the device uses host memory
  uint64_t state_;
  std::vector<Target> targets_;
  std::vector<Expected> expected_;
  double worst_ = 0, worst_update_ = 0;
  bool has_updates_ = false;
  std::vector<TensorError> wrong_;
};

}  // namespace ridgeline
