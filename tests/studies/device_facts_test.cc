// What records say of a GPU, checked with a device that only pretends to be one.
#include "studies/device_facts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cuda/kernels.h"
#include "runtime/cpu_device.h"
#include "studies/attention/row.h"

namespace ridgeline {
namespace {

class PretendedGpu : public CpuDevice {
 public:
  PretendedGpu() : CpuDevice({.threads = 2, .ledger = {.budget = Bytes{64 << 20}}}) {}

  std::string name() const override { return "cuda"; }
  std::string description() const override { return "pretended, driver 1.2"; }
  DeviceFacts facts() const override {
    return {.kind = "cuda",
            .isa = "sm_90a",
            .model = "NVIDIA H200",
            .multiprocessors = 132,
            .l2_bytes = 1 << 20,
            .max_clock_hz = 1.98e9};
  }
  ProductPath product_path(Op op, DType dtype) const override {
    return cuda_product_path(op, dtype);
  }
  Bytes scratch(const Node& node, std::span<const TensorType>) const override {
    return node.op == Op::attention_gradient ? Bytes{4096} : Bytes{};
  }
  std::optional<Bytes> driver_memory_in_use() const override {
    return ledger().live() + Bytes{1 << 20};
  }
};

const AttentionWorkload kRow{{.batch_size = 2, .heads = 1, .seq_len = 32, .head_dim = 16}, "flash"};
const AttentionStudyOptions kQuick{.row = {.protocol = {.warmups = 1, .iterations = 3}}};

TEST(DeviceFacts, AGpuIsPartOfTheMachineAndItsFingerprint) {
  MachineFacts machine = collect_machine_facts();
  const std::string before = machine.fingerprint;
  add_device(machine, CpuDevice({.threads = 1}));
  EXPECT_EQ(machine.fingerprint, before);
  EXPECT_EQ(machine.gpu, std::nullopt);
  add_device(machine, PretendedGpu());
  EXPECT_NE(machine.fingerprint, before);
  EXPECT_EQ(machine.gpu->model, "NVIDIA H200");
  EXPECT_EQ(machine.gpu->software, "pretended, driver 1.2");
}

TEST(DeviceFacts, RowsOfAGpuAreNotToldApartByThreads) {
  const Json cpu = device_settings(CpuDevice({.threads = 2}), 42);
  EXPECT_TRUE(cpu.contains("threads"));
  const Json gpu = device_settings(PretendedGpu(), 42);
  EXPECT_EQ(gpu, (Json{{"isa", "sm_90a"}, {"seed", 42}, {"gpu", "NVIDIA H200"}}));
}

TEST(DeviceFacts, ThePeakOfAGpuIsThatOfItsModelAndClock) {
  const PretendedGpu gpu;
  const Peaks peaks = device_peaks(gpu.facts(), {}, "bf16");
  EXPECT_NEAR(*peaks.flops_per_s, 132 * 1.98e9 * 4096, 1e6);
  Record record;
  EXPECT_EQ(peak_at_clock_seen(gpu.facts(), record, "bf16"), std::nullopt) << "no clock was seen";
  record.device_after = DeviceState{.clock_mhz = 1000};
  EXPECT_NEAR(*peak_at_clock_seen(gpu.facts(), record, "bf16"), 132 * 1e9 * 4096, 1e6);
}

TEST(DeviceFacts, AnyDeviceRunsTheAttentionStudy) {
  PretendedGpu gpu;
  AttentionRunner runner(gpu, kQuick);
  const Record described = runner.describe(kRow, {});
  EXPECT_EQ(described.device, "cuda");
  CpuDevice cpu({.threads = 2});
  const Record without_scratch = AttentionRunner(cpu, kQuick).describe(kRow, {});
  EXPECT_EQ(*described.memory.predicted_peak, *without_scratch.memory.predicted_peak + Bytes{4096});
  const Record record = runner.run(kRow, described).value();
  EXPECT_EQ(record.status, Status::ok) << record.error;
  EXPECT_TRUE(record.memory.driver_peak_growth);
  EXPECT_FALSE(record.memory.process_peak_growth);
}

TEST(DeviceFacts, ARecordSaysWhichArithmeticRan) {
  PretendedGpu gpu;
  CpuDevice cpu({.threads = 2});
  const auto first_part = [](Device& device, const char* implementation, const char* pass) {
    const AttentionWorkload row{kRow.config, implementation};
    AttentionRunner runner(device, kQuick);
    const Record described = runner.describe(row, {});
    EXPECT_FALSE(described.metrics) << "peers are described alike, and run otherwise";
    const Record record = runner.run(row, described).value();
    const Json parts = record.metrics.value()["arithmetic"][pass];
    EXPECT_EQ(parts.size(), 1u);
    const int64_t macs = pass == std::string_view("forward") ? record.cost->forward.macs
                                                             : record.cost->backward.macs;
    EXPECT_EQ(parts[0]["macs"].get<int64_t>(), macs) << implementation;
    return fmt::format("{} {}", parts[0]["products"].get<int>(),
                       parts[0]["dtype"].get<std::string>());
  };
  for (const char* pass : {"forward", "backward"}) {
    EXPECT_EQ(first_part(gpu, "flash", pass), "3 fp16");
    EXPECT_EQ(first_part(gpu, "naive", pass), "1 fp32");
    EXPECT_EQ(first_part(cpu, "flash", pass), "1 fp32");
    EXPECT_EQ(first_part(cpu, "compiled", pass), "1 fp32");
  }
}

}  // namespace
}  // namespace ridgeline
