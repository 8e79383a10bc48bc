// The CPU as a device.
#pragma once

#include "base/machine_limits.h"
#include "jit/host_compiler.h"
#include "kernels/cpu/context.h"
#include "runtime/device.h"
#include "runtime/host_memory.h"

namespace ridgeline {

struct CpuOptions {
  int threads = available_threads();
  Isa isa = default_isa();
  LedgerOptions ledger = {.budget = default_host_budget()};
  HostCompilerOptions compiler = {};  // of generated kernels
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(CpuOptions options = {});

  std::string name() const override { return "cpu"; }
  std::string description() const override;
  DeviceFacts facts() const override;
  Isa isa() const { return isa_; }
  Ledger& ledger() override { return ledger_; }
  const Ledger& ledger() const override { return ledger_; }
  ThreadPool& pool() { return pool_; }
  const HostCompiler& compiler() const { return *compiler_; }

  void run(const Node& node, std::span<const TensorView> inputs,
           std::span<const TensorView> outputs, void* scratch = nullptr) override;
  // The kernels keep their tiles on stacks and in scratch of a fixed size per thread.
  Bytes scratch(const Node&, std::span<const TensorType>) const override { return {}; }
  std::vector<std::string> functions_of(const FusedKernel& kernel) const override;
  std::vector<FusedProgram> compile(std::span<const FusedKernel* const> kernels) override;
  void synchronize() override {}
  std::vector<double> time_each_ms(std::span<const std::function<void()>> works) override;
  std::function<void()> cache_flush(Bytes cache) override;
  bool has_gemm(GemmRung) const override { return true; }
  std::function<void()> prepare_gemm(GemmRung rung, const GemmOperands& operands) override;
  std::vector<ArithmeticProbe> arithmetic_probes(DType dtype) override;
  std::vector<StreamProbe> stream_probes() override;
  ThreadPool* host_threads() override { return &pool_; }
  std::optional<Bytes> driver_memory_in_use() const override { return std::nullopt; }
  void poison(const TensorView& view) override;
  void clear(const TensorView& view) override;
  void upload(const TensorView& to, const void* from) override;
  void download(const TensorView& from, void* to) const override;

 private:
  Isa isa_;
  ThreadPool pool_;
  HostMemory memory_;
  Ledger ledger_;
  std::shared_ptr<HostCompiler> compiler_;  // shared with programs, whose code it holds
};

}  // namespace ridgeline
