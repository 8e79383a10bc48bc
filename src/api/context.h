// What a context of the C interface holds: a device that runs attention, calls that it has
// prepared, and the lock under which calls take turns.
#pragma once

#include <ridgeline/ridgeline.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "api/prepared_calls.h"
#include "base/units.h"
#include "graph/graph.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

// A node of attention or of its gradient, and the caller's tensors. An attention node has two
// outputs. A gradient's fourth and later outputs belong to the caller as gradients of operands, and
// to the node as sums that lead to them (score_function.h).
struct AttentionCall {
  Node node;
  std::vector<TensorView> inputs, outputs;
};

class ContextTurn;

// The few things that the library asks of a device. The whole Device is not used for the CPU: its
// table of kernels would bring OpenBLAS into every program that links the library.
class AttentionDevice {
 public:
  virtual ~AttentionDevice() = default;
  // Between the two, work goes to `stream`, or where the context says if there is none.
  virtual void enter(void* const* stream) = 0;
  virtual void leave() noexcept = 0;
  // Memory that a call needs while it runs, beyond its tensors.
  virtual Bytes scratch(const AttentionCall& call) const = 0;
  // May let others have the turn while it compiles.
  virtual std::unique_ptr<PreparedCall> prepare(const AttentionCall& call, ContextTurn& turn) = 0;
  // Memory of the context's own, valid until the next call on this stream.
  virtual void* workspace(Bytes bytes) = 0;
  virtual void synchronize() = 0;
};

// The device between enter() and leave().
class DeviceScope {
 public:
  DeviceScope(AttentionDevice& device, void* const* stream) : device_(device) {
    device_.enter(stream);
  }
  ~DeviceScope() { device_.leave(); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  AttentionDevice& device_;
};

std::unique_ptr<AttentionDevice> open_cpu(const rl_context_params& params);
std::unique_ptr<AttentionDevice> open_cuda(const rl_context_params& params);
struct CudaOptions;
std::unique_ptr<AttentionDevice> open_cuda(const CudaOptions& options);

}  // namespace ridgeline

struct rl_context {
  rl_device device;
  std::unique_ptr<ridgeline::AttentionDevice> runs;
  ridgeline::PreparedCalls calls = {};
  std::mutex mutex = {};
};

namespace ridgeline {

// A call's turn on a context: its lock, and the device on the stream of the call.
class ContextTurn {
 public:
  ContextTurn(rl_context& context, void* const* stream)
      : context_(context), stream_(stream), lock_(context.mutex) {
    scope_.emplace(*context.runs, stream);
  }
  rl_context& context() { return context_; }
  // Does what needs neither lock nor device, while other calls have their turns.
  void outside(const std::function<void()>& work);

 private:
  rl_context& context_;
  void* const* stream_;
  std::unique_lock<std::mutex> lock_;
  std::optional<DeviceScope> scope_;
};

}  // namespace ridgeline
