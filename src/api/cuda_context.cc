// GPUs behind the C interface: the CUDA device on the caller's stream, or on one of its own.
#include <fmt/format.h>

#include "api/context.h"
#include "base/error.h"
#include "jit/disk_cache.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {
namespace {

CudaOptions options_of(const rl_context_params& params) {
  CudaOptions options = {.ordinal = params.device.id};
  if (params.uses_stream != 0) options.stream = static_cast<cuda::Stream>(params.stream);
  if (params.cache_dir != nullptr) options.jit.cache_dir = params.cache_dir;
  return options;
}

// A folder that was asked for and cannot be used is an error; the user's own cache is a help.
void check_cache(const char* folder) {
  if (folder == nullptr || std::string(folder) == "off") return;
  if (!DiskCache(folder).usable())
    throw Error(ErrorKind::usage,
                fmt::format("params.cache_dir '{}' cannot be used as a private folder", folder),
                "name one that only this user may write to, or \"off\"");
}

class Cuda : public AttentionDevice {
 public:
  explicit Cuda(const CudaOptions& options) : device_(options) {}

  void run(const Node& node, std::span<const TensorView> inputs,
           std::span<const TensorView> outputs, void* scratch) override {
    device_.run(node, inputs, outputs, scratch);
  }
  Bytes scratch(const Node& node, std::span<const TensorType> inputs) const override {
    return device_.scratch(node, inputs);
  }
  // A block that is replaced may still be read: the driver waits for that before it frees.
  void* workspace(Bytes bytes) override {
    if (bytes > memory_.bytes()) {
      memory_ = {};
      memory_ = device_.ledger().allocate(bytes, "workspace of attention");
    }
    return memory_.data();
  }
  void synchronize() override { device_.synchronize(); }

 private:
  CudaDevice device_;
  Allocation memory_;
};

}  // namespace

std::unique_ptr<AttentionDevice> open_cuda(const rl_context_params& params) {
  set_cache_warnings(false);
  check_cache(params.cache_dir);
  return std::make_unique<Cuda>(options_of(params));
}

}  // namespace ridgeline
