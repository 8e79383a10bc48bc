// The CPU as a device.
#pragma once

#include "base/machine_limits.h"
#include "kernels/cpu/context.h"
#include "runtime/device.h"
#include "runtime/host_memory.h"

namespace ridgeline {

struct CpuOptions {
  int threads = available_threads();
  Isa isa = default_isa();
  LedgerOptions ledger = {.budget = default_host_budget()};
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

  void run(const Node& node, std::span<const TensorView> inputs,
           std::span<const TensorView> outputs) override;
  // The kernels keep their tiles on stacks and in scratch of a fixed size per thread.
  Bytes scratch(const Node&, std::span<const TensorType>) const override { return {}; }
  void synchronize() override {}
  double time_ms(const std::function<void()>& work) override;
  std::optional<Bytes> driver_memory_in_use() const override { return std::nullopt; }
  void poison(const TensorView& view) override;
  void upload(const TensorView& to, const void* from) override;
  void download(const TensorView& from, void* to) const override;

 private:
  Isa isa_;
  ThreadPool pool_;
  HostMemory memory_;
  Ledger ledger_;
};

}  // namespace ridgeline
