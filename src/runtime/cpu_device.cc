#include "runtime/cpu_device.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/kernels.h"

namespace ridgeline {
namespace {

size_t contiguous_bytes(const TensorView& view) {
  return static_cast<size_t>(byte_size({view.dtype, view.shape}).count);
}

}  // namespace

CpuDevice::CpuDevice(CpuOptions options)
    : isa_(options.isa), pool_(options.threads), ledger_(memory_, std::move(options.ledger)) {}

std::string CpuDevice::description() const {
  return fmt::format("{} threads, {}, {}", pool_.threads(), ridgeline::name(isa_),
                     blas_description());
}

DeviceFacts CpuDevice::facts() const {
  return {.kind = "cpu", .isa = std::string(ridgeline::name(isa_)), .threads = pool_.threads()};
}

double CpuDevice::time_ms(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void CpuDevice::run(const Node& node, std::span<const TensorView> inputs,
                    std::span<const TensorView> outputs) {
  if (const CpuKernel kernel = cpu_kernel(node.op))
    kernel({node, inputs, outputs}, {.pool = pool_, .isa = isa_});
}

void CpuDevice::poison(const TensorView& view) {
  std::memset(view.data, 0xff, contiguous_bytes(view));
}

void CpuDevice::upload(const TensorView& to, const void* from) {
  std::memcpy(to.data, from, contiguous_bytes(to));
}

void CpuDevice::download(const TensorView& from, void* to) const {
  std::memcpy(to, from.data, contiguous_bytes(from));
}

}  // namespace ridgeline
