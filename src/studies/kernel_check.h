// Checks every kernel of a run by itself: what it wrote against fp64 arithmetic on what it read,
// within roundings. Small results are compared whole, large ones at their edges and at random.
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
  // The device must outlive it.
  KernelChecker(const Device& device, uint64_t seed);
  ~KernelChecker() override;

  void before(const KernelRun& run) override;
  void after(const KernelRun& run) override;

  // Adds the first wrong results under their own names, then the worst of all: "<prefix>kernels",
  // and of updates "<prefix>optimizer". These are errors in parts of what is allowed.
  void report(const std::string& prefix, Verification& verification) const;
  // The first wrong results: the worst element of each.
  const std::vector<TensorError>& wrong() const { return wrong_; }

 private:
  struct Target {  // a result of the kernel that is under way
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
  bool is_host_;  // whether the device's memory is the host's
  uint64_t state_;
  std::vector<Target> targets_;
  std::vector<Expected> expected_;
  double worst_ = 0, worst_update_ = 0;
  bool has_updates_ = false;
  std::vector<TensorError> wrong_;
};

}  // namespace ridgeline
