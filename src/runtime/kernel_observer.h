// Observes kernels as they run: the inputs and outputs of each.
#pragma once

#include <span>

#include "graph/graph.h"
#include "plan/fused_kernel.h"
#include "runtime/device.h"

namespace ridgeline {

// One kernel and the memory that it uses.
struct KernelRun {
  const Graph& graph;
  uint32_t node = 0;                        // the node it computes; the first of a generated kernel
  const Node* updated = nullptr;            // of an update with products: what `inputs` belong to
  std::span<const TensorView> inputs = {};  // of a node
  std::span<const TensorView> outputs = {};  // of a node
  const Product* product = nullptr;          // of a product with an epilogue
  const FusedKernel* fused = nullptr;        // of a generated kernel: its storages, in its order
  std::span<void*const> input_addresses = {}, output_addresses = {};
  size_t number = 0;  // among the kernels of the plan; without a plan, of the node
};

class KernelObserver {
 public:
  virtual ~KernelObserver() = default;
  virtual void before(const KernelRun& run) = 0;  // all inputs are ready, the kernel has not begun
  virtual void after(const KernelRun& run) = 0;   // it was launched; downloads wait for it

  // Whether recordings may be replayed. Then the observer sees each kernel once, while it is
  // recorded and not run, and each replay as a whole; else kernels are launched one by one.
  virtual bool takes_recordings() const { return false; }
  virtual void begin_recording() {}
  virtual void end_recording() {}
  virtual void before_start() {}
  virtual void after_start() {}
};

}  // namespace ridgeline
