#include "runtime/cuda/kernel_store.h"

#include <algorithm>

namespace ridgeline {
namespace {

// Allows this thread to load modules while another thread captures a stream, by relaxing its
// capture mode. Otherwise the driver refuses, and invalidates that capture.
class OutsideOfCaptures {
 public:
  explicit OutsideOfCaptures(const cuda::Driver& driver) : driver_(driver) { exchange(); }
  ~OutsideOfCaptures() { exchange(); }
  OutsideOfCaptures(const OutsideOfCaptures&) = delete;
  OutsideOfCaptures& operator=(const OutsideOfCaptures&) = delete;

 private:
  void exchange() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }

  const cuda::Driver& driver_;
  cuda::StreamCaptureMode mode_ = cuda::kCaptureRelaxed;
};

}  // namespace

size_t KernelStore::Hash::operator()(const CudaKernel& kernel) const {
  const std::hash<std::string> hash;
  size_t all = hash(kernel.file) * 31 + hash(kernel.entry);
  for (const auto& [name, value] : kernel.constants) all = all * 31 + hash(value);
  return all;
}

KernelStore::~KernelStore() {
  for (auto& [kernel, loaded] : loaded_) queue_.driver().cuModuleUnload(loaded.module);
}

cuda::Function KernelStore::function(const CudaLaunch& launch) {
  Loaded& loaded = find(launch.kernel);
  if (launch.shared_bytes > loaded.shared_bytes) {
    const OutsideOfCaptures outside(queue_.driver());  // the driver may load lazily here
    queue_.check(queue_.driver().cuFuncSetAttribute(loaded.function, cuda::kMaxDynamicSharedBytes,
                                                    static_cast<int>(launch.shared_bytes)),
                 "asking for more shared memory than 48 KiB");
    loaded.shared_bytes = launch.shared_bytes;
  }
  return loaded.function;
}

void KernelStore::run(const CudaLaunch& launch) {
  queue_.launch(function(launch), launch);
}

void KernelStore::run(std::span<const CudaLaunch> launches) {
  std::vector<CudaKernel> wanted;
  for (const CudaLaunch& launch : launches)
    if (!loaded_.contains(launch.kernel)) wanted.push_back(launch.kernel);
  load(wanted);
  for (const CudaLaunch& launch : launches) run(launch);
}

KernelStore::Loaded& KernelStore::find(const CudaKernel& kernel) {
  const auto found = loaded_.find(kernel);
  if (found != loaded_.end()) return found->second;
  queue_.require_no_capture("loading a kernel");
  const SetupClock::Scope setup(queue_.setup());
  return add(kernel, jit_.machine_code(kernel));
}

std::vector<CudaKernel> KernelStore::missing(std::span<const CudaKernel> kernels) const {
  std::vector<CudaKernel> wanted;
  for (const CudaKernel& kernel : kernels)
    if (!loaded_.contains(kernel) &&
        std::find(wanted.begin(), wanted.end(), kernel) == wanted.end())
      wanted.push_back(kernel);
  return wanted;
}

void KernelStore::load(std::span<const CudaKernel> kernels) {
  const std::vector<CudaKernel> wanted = missing(kernels);
  if (wanted.empty()) return;
  queue_.require_no_capture("loading a kernel");
  const SetupClock::Scope setup(queue_.setup());
  load(wanted, jit_.machine_codes(wanted));
}

void KernelStore::load(std::span<const CudaKernel> kernels, std::span<const MachineCode> codes) {
  for (size_t i = 0; i < kernels.size(); ++i) add(kernels[i], codes[i]);
}

KernelStore::Loaded& KernelStore::add(const CudaKernel& kernel, const MachineCode& code) {
  Loaded loaded;
  queue_.make_current();
  const OutsideOfCaptures outside(queue_.driver());
  queue_.check(queue_.driver().cuModuleLoadData(&loaded.module, code.cubin.data()),
               "loading a kernel");
  const cuda::Result result =
      queue_.driver().cuModuleGetFunction(&loaded.function, loaded.module, kernel.entry.c_str());
  if (result != cuda::kSuccess) queue_.driver().cuModuleUnload(loaded.module);
  queue_.check(result, "finding a kernel's entry");
  return loaded_.emplace(kernel, loaded).first->second;
}

}  // namespace ridgeline
