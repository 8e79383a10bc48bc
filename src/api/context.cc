#include "api/context.h"

#include <fmt/format.h>

#include <new>

#include "api/border.h"
#include "api/tensor_check.h"
#include "base/error.h"
#include "base/machine_limits.h"
#include "kernels/cpu/kernels.h"

namespace ridgeline {
namespace {

constexpr int kMostThreads = 1024;

class Cpu : public AttentionDevice {
 public:
  explicit Cpu(int threads) : pool_(threads), isa_(default_isa()) {}

  void run(const Node& node, std::span<const TensorView> inputs,
           std::span<const TensorView> outputs, void* /*scratch*/) override {
    const KernelCall call{node, inputs, outputs};
    const CpuContext context{.pool = pool_, .isa = isa_};
    if (node.op == Op::attention)
      attention_kernel(call, context);
    else
      attention_gradient_kernel(call, context);
  }
  // The kernels take what they need by themselves.
  Bytes scratch(const Node&, std::span<const TensorType>) const override { return {}; }
  void* workspace(Bytes bytes) override {
    if (bytes > held_) {
      memory_.reset();
      held_ = {};
      memory_.reset(static_cast<char*>(::operator new(static_cast<size_t>(bytes.count), kAligned)));
      held_ = bytes;
    }
    return memory_.get();
  }
  void synchronize() override {}

 private:
  static constexpr std::align_val_t kAligned{kWorkspaceAlignment};
  struct Free {
    void operator()(char* data) const { ::operator delete(data, kAligned); }
  };

  ThreadPool pool_;
  Isa isa_;
  std::unique_ptr<char, Free> memory_;
  Bytes held_;
};

std::unique_ptr<AttentionDevice> open(const rl_context_params& params) {
  if (params.threads < 0 || params.threads > kMostThreads)
    throw Error(ErrorKind::usage, fmt::format("params.threads is {}", params.threads),
                fmt::format("use 1 to {}, or 0 for all of the machine", kMostThreads));
  if (params.uses_stream != 0 && params.uses_stream != 1)
    throw Error(ErrorKind::usage, fmt::format("params.uses_stream is {}", params.uses_stream),
                "use 0 or 1");
  if (params.device.type == RL_CPU && params.device.id == 0) return open_cpu(params);
  if (params.device.type == RL_CUDA) return open_cuda(params);
  throw Error(
      ErrorKind::usage,
      fmt::format("params.device is {{type {}, id {}}}", params.device.type, params.device.id),
      "use {RL_CPU, 0}, or {RL_CUDA, number of the GPU}");
}

}  // namespace

std::unique_ptr<AttentionDevice> open_cpu(const rl_context_params& params) {
  if (params.uses_stream != 0)
    throw Error(ErrorKind::usage, "params.uses_stream is 1 on the CPU, which has no streams",
                "set it to 0");
  return std::make_unique<Cpu>(params.threads == 0 ? available_threads() : params.threads);
}

}  // namespace ridgeline

extern "C" {

rl_status rl_context_create(const rl_context_params* given, rl_context** context) {
  return ridgeline::guarded([&] {
    if (context == nullptr)
      throw ridgeline::Error(ridgeline::ErrorKind::usage, "context is null",
                             "pass where the context is to be stored");
    *context = nullptr;
    rl_context_params params = {};
    params.device = {RL_CPU, 0};
    if (given != nullptr) params = ridgeline::read_params(given, "params");
    auto made = std::make_unique<rl_context>();
    made->device = params.device;
    made->runs = ridgeline::open(params);
    *context = made.release();
  });
}

void rl_context_destroy(rl_context* context) {
  delete context;
}

rl_status rl_context_synchronize(rl_context* context) {
  return ridgeline::guarded([&] {
    if (context == nullptr)
      throw ridgeline::Error(ridgeline::ErrorKind::usage, "context is null",
                             "make one with rl_context_create");
    const std::lock_guard lock(context->mutex);
    context->runs->synchronize();
  });
}

}  // extern "C"
