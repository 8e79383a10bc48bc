// Whoever looks at kernels as they run: at what goes into each, and what comes out.
#pragma once

#include <span>

#include "graph/graph.h"
#include "plan/fused_kernel.h"
#include "runtime/device.h"

namespace ridgeline {

// One kernel and the memory that it works on.
struct KernelRun {
  const Graph& graph;
  uint32_t node = 0;                         // that it computes; the first of a generated kernel
  const Node* updated = nullptr;             // of an update with products: what `inputs` belong to
  std::span<const TensorView> inputs = {};   // of a node
  std::span<const TensorView> outputs = {};  // of a node
  const Product* product = nullptr;          // of a product with an epilogue
  const FusedKernel* fused = nullptr;        // of a generated kernel: its storages, in its order
  std::span<void*const> input_addresses = {}, output_addresses = {};
  size_t number = 0;  // among the kernels of the plan; without a plan, of the node
};

class KernelObserver {
 public:
  virtual ~KernelObserver() = default;
  virtual void before(const KernelRun& run) = 0;  // all inputs are there, the kernel has not begun
  virtual void after(const KernelRun& run) = 0;   // it was started; downloads wait for it

  // Whether recorded work stays recorded work. Then kernels are seen once, while they are recorded
  // and not run, and each start of the recording as a whole; else kernels are started one by one.
  virtual bool takes_recordings() const { return false; }
  virtual void begin_recording() {}
  virtual void end_recording() {}
  virtual void before_start() {}
  virtual void after_start() {}
};

}  // namespace ridgeline
