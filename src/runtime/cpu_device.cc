#include "runtime/cpu_device.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/fused.h"
#include "kernels/cpu/kernels.h"

namespace ridgeline {
namespace {

size_t contiguous_bytes(const TensorView& view) {
  return static_cast<size_t>(byte_size({view.dtype, view.shape}).count);
}

}  // namespace

CpuDevice::CpuDevice(CpuOptions options)
    : isa_(options.isa),
      pool_(options.threads),
      ledger_(memory_, std::move(options.ledger)),
      compiler_(std::make_shared<HostCompiler>(std::move(options.compiler))) {
  reserve_blas_buffers(pool_.threads());
}

std::string CpuDevice::description() const {
  return fmt::format("{} threads, {}, {}", pool_.threads(), ridgeline::name(isa_),
                     blas_description());
}

DeviceFacts CpuDevice::facts() const {
  return {.kind = "cpu", .isa = std::string(ridgeline::name(isa_)), .threads = pool_.threads()};
}

std::vector<double> CpuDevice::time_each_ms(std::span<const std::function<void()>> works) {
  std::vector<double> times(works.size());
  auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < works.size(); ++i) {
    works[i]();
    const auto end = std::chrono::steady_clock::now();
    times[i] = std::chrono::duration<double, std::milli>(end - begin).count();
    begin = end;
  }
  return times;
}

void CpuDevice::run(const Node& node, std::span<const TensorView> inputs,
                    std::span<const TensorView> outputs, void* /*scratch*/) {
  if (const CpuKernel kernel = cpu_kernel(node.op))
    kernel({node, inputs, outputs}, {.pool = pool_, .isa = isa_});
}

std::vector<std::string> CpuDevice::functions_of(const FusedKernel& kernel) const {
  return {emit_host(kernel).entry};
}

std::function<void()> CpuDevice::cache_flush(Bytes cache) {
  constexpr int64_t kLine = 64;
  constexpr int64_t kGrain = 1024;  // minimum cache lines per thread
  auto buffer = std::make_shared<std::vector<char>>(static_cast<size_t>(cache.count));
  return [this, buffer] {
    // Writes line by line, as a large memset would bypass the cache.
    const int64_t lines = static_cast<int64_t>(buffer->size()) / kLine;
    pool_.for_range(lines, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) ++(*buffer)[static_cast<size_t>(line * kLine)];
    });
  };
}

std::vector<FusedProgram> CpuDevice::compile(std::span<const FusedKernel* const> kernels) {
  std::vector<HostText> texts;
  std::vector<HostSource> sources;
  for (const FusedKernel* kernel : kernels) {
    texts.push_back(emit_host(*kernel));
    sources.push_back({texts.back().entry, texts.back().text});
  }
  const std::vector<void*> functions = compiler_->functions(host_preamble(), sources);
  std::vector<FusedProgram> programs;
  for (size_t i = 0; i < kernels.size(); ++i)
    programs.push_back([kernel = CpuFusedKernel(*kernels[i], std::move(texts[i]),
                                                reinterpret_cast<HostFunction>(functions[i])),
                        compiler = compiler_, context = CpuContext{.pool = pool_, .isa = isa_}](
                           auto inputs, auto outputs, void* scratch) {
      kernel.run(inputs, outputs, scratch, context);
    });
  return programs;
}

void CpuDevice::poison(const TensorView& view) {
  std::memset(view.data, 0xff, contiguous_bytes(view));
}

void CpuDevice::clear(const TensorView& view) {
  std::memset(view.data, 0, contiguous_bytes(view));
}

void CpuDevice::upload(const TensorView& to, const void* from) {
  std::memcpy(to.data, from, contiguous_bytes(to));
}

void CpuDevice::download(const TensorView& from, void* to) const {
  std::memcpy(to, from.data, contiguous_bytes(from));
}

}  // namespace ridgeline
