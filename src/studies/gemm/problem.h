// One matrix product on one device: allocates and fills its operands, runs and verifies it.
//
//   GemmProblem problem({.shape = {512, 512, 512}, .implementation = "tiled"}, device, 42);
//   problem.start();
#pragma once

#include <functional>
#include <vector>

#include "measure/record.h"
#include "runtime/device.h"
#include "studies/gemm/workload.h"

namespace ridgeline {

class GemmProblem {
 public:
  // Fills the operands with seeded normal values. Throws out_of_memory, and an unsupported error if
  // the device lacks the implementation.
  GemmProblem(const GemmWorkload& workload, Device& device, uint64_t seed);

  void start() const { start_(); }
  // Poisons the result, runs once and waits.
  void run_poisoned();
  // Compares with products in fp64: every row, or a sample of rows of large problems.
  Verification verify(uint64_t seed) const;

  const TensorView& out() const { return out_; }

 private:
  GemmWorkload workload_;
  Device& device_;
  Allocation a_memory_, b_memory_, out_memory_;
  TensorView a_, b_, out_;
  std::function<void()> start_;
};

}  // namespace ridgeline
