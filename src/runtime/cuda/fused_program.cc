// Generated kernels on a GPU, and launch graphs as recorded work.

#include <memory>
#include <utility>

#include "kernels/cuda/matmul/product.h"
#include "kernels/cuda/pointwise/fused.h"
#include "kernels/cuda/training/product_update.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {

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

std::vector<FusedProgram> CudaDevice::compile(std::span<const FusedKernel* const> kernels) {
  std::vector<FusedProgram> programs;
  std::vector<CudaKernel> texts;
  for (const FusedKernel* kernel : kernels) {
    if (kernel->product) {
      CudaProductKernel product(*kernel, facts_);
      texts.push_back(product.kernel());
      programs.push_back([this, product = std::move(product)](auto inputs, auto outputs, void*) {
        queue_.make_current();
        kernels_.run(product.launch(inputs, outputs, usable_));
      });
      continue;
    }
    CudaFusedKernel fused(*kernel);
    for (CudaKernel& text : fused.kernels()) texts.push_back(std::move(text));
    programs.push_back([this, fused = std::move(fused)](auto inputs, auto outputs, void* scratch) {
      queue_.make_current();
      for (const CudaLaunch& launch : fused.launches(inputs, outputs, scratch))
        kernels_.run(launch);
    });
  }
  kernels_.load(texts);
  return programs;
}

RecordedWork CudaDevice::record(const std::function<void()>& work) {
  const SetupClock::Scope setup(queue_.setup());
  return [graph = std::make_shared<const CudaGraph>(capture(work))] { graph->launch(); };
}

}  // namespace ridgeline
