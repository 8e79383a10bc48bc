// What a context of the C interface holds: a device that runs attention nodes, its workspace, and
// the lock under which calls take turns.
#pragma once

#include <ridgeline/ridgeline.h>

#include <memory>
#include <mutex>
#include <span>

#include "base/units.h"
#include "graph/graph.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

// The few things that the library asks of a device. The whole Device is not used for the CPU: its
// table of kernels would bring OpenBLAS into every program that links the library.
class AttentionDevice {
 public:
  virtual ~AttentionDevice() = default;
  // Starts an attention node or its gradient; `scratch`: as much as scratch() says.
  virtual void run(const Node& node, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs, void* scratch) = 0;
  virtual Bytes scratch(const Node& node, std::span<const TensorType> inputs) const = 0;
  // Memory of the context's own, valid until the next call.
  virtual void* workspace(Bytes bytes) = 0;
  virtual void synchronize() = 0;
};

std::unique_ptr<AttentionDevice> open_cpu(const rl_context_params& params);
std::unique_ptr<AttentionDevice> open_cuda(const rl_context_params& params);

}  // namespace ridgeline

struct rl_context {
  rl_device device;
  std::unique_ptr<ridgeline::AttentionDevice> runs;
  std::mutex mutex;
};
