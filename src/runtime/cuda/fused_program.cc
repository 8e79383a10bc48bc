// Generated kernels on a GPU, and launch graphs as recorded work.
#include "kernels/cuda/matmul/product.h"
#include "kernels/cuda/pointwise/fused.h"
#include "kernels/cuda/training/product_update.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {
namespace {

class RecordedGraph : public RecordedWork {
 public:
  explicit RecordedGraph(CudaGraph graph) : graph_(std::move(graph)) {}
  void start() override { graph_.launch(); }

 private:
  CudaGraph graph_;
};

class CudaProgram : public FusedProgram {
 public:
  CudaProgram(CudaFusedKernel kernel, CudaQueue& queue, KernelStore& store)
      : kernel_(std::move(kernel)), queue_(queue), store_(store) {}
  void run(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    queue_.make_current();
    for (const CudaLaunch& launch : kernel_.launches(inputs, outputs, scratch)) store_.run(launch);
  }

 private:
  CudaFusedKernel kernel_;
  CudaQueue& queue_;
  KernelStore& store_;
};

class CudaProductProgram : public FusedProgram {
 public:
  CudaProductProgram(CudaProductKernel kernel, const CudaFacts& device, CudaQueue& queue,
                     KernelStore& store)
      : kernel_(std::move(kernel)), device_(device), queue_(queue), store_(store) {}
  void run(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    queue_.make_current();
    store_.run(kernel_.launch(inputs, outputs, device_));
  }

 private:
  CudaProductKernel kernel_;
  const CudaFacts& device_;
  CudaQueue& queue_;
  KernelStore& store_;
};

}  // namespace

bool CudaDevice::has_product_kernels() const {
  return ridgeline::has_product_kernels(facts_);
}

bool CudaDevice::prefers_update_products(std::span<const ProductSize> products) const {
  return ridgeline::prefers_update_products(products, facts_);
}

// A kernel may have several functions: a fold of columns has two.
std::vector<std::string> CudaDevice::functions_of(const FusedKernel& kernel) const {
  if (kernel.product) return {CudaProductKernel(kernel, facts_).kernel().entry};
  std::vector<std::string> entries;
  for (const CudaKernel& text : CudaFusedKernel(kernel).kernels()) entries.push_back(text.entry);
  return entries;
}

std::vector<std::unique_ptr<FusedProgram>> CudaDevice::compile(
    std::span<const FusedKernel* const> kernels) {
  std::vector<std::unique_ptr<FusedProgram>> programs;
  std::vector<CudaKernel> texts;
  for (const FusedKernel* kernel : kernels) {
    if (kernel->product) {
      CudaProductKernel product(*kernel, facts_);
      texts.push_back(product.kernel());
      programs.push_back(
          std::make_unique<CudaProductProgram>(std::move(product), usable_, queue_, kernels_));
      continue;
    }
    CudaFusedKernel fused(*kernel);
    for (CudaKernel& text : fused.kernels()) texts.push_back(std::move(text));
    programs.push_back(std::make_unique<CudaProgram>(std::move(fused), queue_, kernels_));
  }
  kernels_.load(texts);
  return programs;
}

std::unique_ptr<RecordedWork> CudaDevice::record(const std::function<void()>& work) {
  const SetupClock::Scope setup(queue_.setup());
  return std::make_unique<RecordedGraph>(capture(work));
}

}  // namespace ridgeline
