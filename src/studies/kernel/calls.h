// An attention problem that can be called repeatedly on preallocated tensors.
#pragma once

#include <memory>
#include <vector>

#include "cost/memory.h"
#include "models/attention.h"
#include "runtime/device.h"

namespace ridgeline {

struct KernelCallOptions {
  int64_t copies = 1;  // of all tensors, with equal values, for rotation
  bool backward = false;
  uint64_t seed = 42;
};

class KernelCalls {
 public:
  virtual ~KernelCalls() = default;

  // Starts the computation, which is asynchronous on a GPU.
  virtual void forward(int64_t copy) = 0;
  virtual void backward(int64_t copy) = 0;

  // Runs the first copy once, over poisoned results, and waits: for verification.
  virtual void run_poisoned(bool backward) = 0;
  // Returns one head of the first copy, in row-major order.
  virtual std::vector<double> read(const char* tensor, int64_t head) const = 0;
  virtual bool has_log_sum_exp() const = 0;
  // Whether calls allocate no memory, so that a launch graph can capture them.
  virtual bool can_be_captured() const = 0;
};

// Runs one attention node (and one gradient node) directly on the device.
std::unique_ptr<KernelCalls> fused_calls(const AttentionConfig& config, Device& device,
                                         const KernelCallOptions& options);
// Runs one kernel per step of the formula with the eager executor; supports one copy only.
std::unique_ptr<KernelCalls> plain_calls(const AttentionConfig& config, Device& device,
                                         const KernelCallOptions& options);

// The memory that fused_calls allocates.
struct FusedBytes {
  Bytes inputs;   // one copy: q, k, v, and the gradient of the output with a backward
  Bytes all;      // one copy, results included
  Bytes scratch;  // the most that a call needs while it runs
};
FusedBytes fused_bytes(const AttentionConfig& config, bool backward, const ScratchOf& scratch = {});

}  // namespace ridgeline
