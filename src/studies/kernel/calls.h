// An attention problem ready to be called over and over on tensors that are already there.
#pragma once

#include <memory>
#include <vector>

#include "cost/memory.h"
#include "models/attention.h"
#include "runtime/device.h"

namespace ridgeline {

struct KernelCallOptions {
  int64_t copies = 1;  // of all tensors, with the same values, for rotation
  bool backward = false;
  uint64_t seed = 42;
};

class KernelCalls {
 public:
  virtual ~KernelCalls() = default;

  // Start the work; a GPU's runs later.
  virtual void forward(int64_t copy) = 0;
  virtual void backward(int64_t copy) = 0;

  // Runs the first copy once over results that were made unreadable, and waits: for verification.
  virtual void run_poisoned(bool backward) = 0;
  // One head of the first copy, in row-major order.
  virtual std::vector<double> read(const char* tensor, int64_t head) const = 0;
  virtual bool has_log_sum_exp() const = 0;
  // Calls take no memory of their own, so that they can be captured in a launch graph.
  virtual bool can_be_captured() const = 0;
};

// One attention node (and one gradient node), run directly on the device.
std::unique_ptr<KernelCalls> fused_calls(const AttentionConfig& config, Device& device,
                                         const KernelCallOptions& options);
// One kernel per step of the formula, through the eager executor; one copy only.
std::unique_ptr<KernelCalls> plain_calls(const AttentionConfig& config, Device& device,
                                         const KernelCallOptions& options);

// What fused_calls takes of the ledger for its tensors, and the share of it that calls read.
struct FusedBytes {
  Bytes inputs;   // one copy: q, k, v, and the gradient of the output with a backward
  Bytes all;      // one copy, results included
  Bytes scratch;  // the most that a call takes while it runs
};
FusedBytes fused_bytes(const AttentionConfig& config, bool backward, const ScratchOf& scratch = {});

}  // namespace ridgeline
