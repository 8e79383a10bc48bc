// How busy a GPU is by its own counters, held against what is known of three kinds of work. Every
// test prints what it saw.
#include <gtest/gtest.h>

#include "base/print.h"
#include "runtime/utilisation.h"
#include "support/gpu.h"

namespace ridgeline {
namespace {

void show(const char* what, const Utilisation& seen) {
  const auto share = [](std::optional<double> value) {
    return value ? fmt::format("{:.2f} %", 100 * *value) : std::string("unknown");
  };
  print(
      "{}: SM active {}, tensor pipe {}, DRAM {:.0f} GB/s, clock {:.0f} MHz, by {} ({} samples)\n",
      what, share(seen.sm_active), share(seen.tensor_active),
      1e-9 * seen.dram_bytes_per_s.value_or(0), 1e-6 * seen.sm_clock_hz.value_or(0),
      seen.source.empty() ? "nothing" : seen.source, seen.samples.size());
  for (const std::string& each : seen.passed_over) print("  not by {}\n", each);
}

class GpuUtilisation : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { RIDGELINE_NEEDS_GPU(); }
  // One source alone, so that each is held against the same work.
  UtilisationMeter meter(const Device& device) const {
    const int ordinal = device.facts().ordinal;
    const std::string name = GetParam();
    return UtilisationMeter({{name, [=](std::string& why_not) {
                                return name == "CUPTI" ? open_pm_sampling(cuda_library("cupti"),
                                                                          ordinal, why_not)
                                                       : open_nvml_gpm(ordinal, why_not);
                              }}});
  }
};

#define RIDGELINE_NEEDS_COUNTERS(seen) \
  if (!(seen).sm_active) GTEST_SKIP() << "no counters: " << (seen).passed_over.at(0)

struct Tensor {
  Tensor(Device& device, DType dtype, Shape shape, const char* name)
      : memory(device.ledger().allocate(byte_size({dtype, shape}), name)),
        view{memory.data(), dtype, shape, contiguous_strides(shape)} {}
  Allocation memory;
  TensorView view;
};

constexpr double kFlopsPerCycle = 4096;  // dense bf16, of a multiprocessor of Hopper

TEST_P(GpuUtilisation, TensorPipesOfAProductAreAsBusyAsItsRateSays) {
  CudaDevice device;
  constexpr int64_t kSize = 8192;
  const Tensor a(device, DType::bf16, {kSize, kSize}, "a"),
      b(device, DType::bf16, {kSize, kSize}, "b"), out(device, DType::bf16, {kSize, kSize}, "out");
  // Normal numbers take the power of real work, and so its clock.
  std::vector<uint16_t> values(static_cast<size_t>(kSize * kSize));
  uint32_t state = 7;
  for (uint16_t& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint16_t>(0x3c00u + (state >> 16) % 0x0400u + ((state >> 8) % 2 << 15));
  }
  for (const Tensor* tensor : {&a, &b}) device.upload(tensor->view, values.data());
  const std::function<void()> product =
      device.prepare_gemm(GemmRung::library, {.a = a.view, .b = b.view, .out = out.view});
  UtilisationMeter counting = meter(device);
  const Utilisation seen = counting.measure(device, product);
  show("8192^3 bf16", seen);
  RIDGELINE_NEEDS_COUNTERS(seen);
  constexpr int kCalls = 200;
  const double ms = device.time_ms([&] {
    for (int call = 0; call < kCalls; ++call) product();
  }) / kCalls;
  const double rate = 2.0 * kSize * kSize * kSize / ms / 1e-3;
  const int multiprocessors = device.facts().multiprocessors;
  ASSERT_TRUE(seen.sm_clock_hz);
  const double expected = rate / (kFlopsPerCycle * multiprocessors * *seen.sm_clock_hz);
  const std::optional<GpuState> now = device.state();
  print(
      "  {:.1f} TFLOP/s over {:.0f} x {} x {:.0f} MHz = {:.2f} %, off by {:+.2f} points; clock by "
      "NVML after it {:.0f} MHz\n",
      1e-12 * rate, kFlopsPerCycle, multiprocessors, 1e-6 * *seen.sm_clock_hz, 100 * expected,
      100 * (*seen.tensor_active - expected), now ? now->sm_clock_mhz.value_or(0) : 0);
  // CUPTI counts cycles; the clock beside NVML's counters is read now and then, and a product that
  // throttles the GPU moves it by a tenth.
  const double tolerance = GetParam() == std::string_view("CUPTI") ? 0.05 : 0.2;
  if (device.facts().isa.starts_with("sm_90")) {
    EXPECT_NEAR(*seen.tensor_active, expected, tolerance);
  }
  EXPECT_GT(*seen.sm_active, 0.9);
}

TEST_P(GpuUtilisation, ACopyUsesMemoryAndNoTensorPipes) {
  CudaDevice device;
  const Shape shape = {int64_t{1} << 28};  // 1 GiB of fp32
  const Tensor from(device, DType::f32, shape, "from"), to(device, DType::f32, shape, "to");
  const RateProbe copy =
      device.stream_probes().at(0).prepare({.a = from.view, .to = to.view, .b = {}});
  UtilisationMeter counting = meter(device);
  const Utilisation seen = counting.measure(device, copy.start);
  show("copy of 1 GiB", seen);
  RIDGELINE_NEEDS_COUNTERS(seen);
  const double ms = device.time_ms(copy.start);
  const double rate = copy.bytes / ms / 1e-3;
  print("  the copy moves {:.0f} GB/s by its time\n", 1e-9 * rate);
  EXPECT_LT(*seen.tensor_active, 0.05);
  ASSERT_TRUE(seen.dram_bytes_per_s);
  EXPECT_NEAR(*seen.dram_bytes_per_s / rate, 1, 0.15);
}

TEST_P(GpuUtilisation, ATinyKernelInALoopLeavesMultiprocessorsEmpty) {
  CudaDevice device;
  const Shape shape = {1024};
  const Tensor from(device, DType::f32, shape, "from"), to(device, DType::f32, shape, "to");
  const RateProbe copy =
      device.stream_probes().at(0).prepare({.a = from.view, .to = to.view, .b = {}});
  UtilisationMeter counting = meter(device);
  const Utilisation seen = counting.measure(device, copy.start);
  show("tiny kernel in a loop", seen);
  RIDGELINE_NEEDS_COUNTERS(seen);
  constexpr int kCalls = 500;
  const double wall_ms = device.time_ms([&] {
    for (int call = 0; call < kCalls; ++call) copy.start();
  }) / kCalls;
  std::optional<double> busy_ms;
  for (int attempt = 0; attempt < 10 && !busy_ms; ++attempt)
    busy_ms = device.busy_ms([&] {
      for (int call = 0; call < kCalls; ++call) copy.start();
    });
  const double busy = busy_ms ? std::min(1.0, *busy_ms / kCalls / wall_ms) : 1;
  print(
      "  {:.2f} us a call, of which the GPU is busy {:.0f} %; then {:.1f} of {} multiprocessors "
      "have "
      "a warp in the mean\n",
      1e3 * wall_ms, 100 * busy, *seen.sm_active / busy * device.facts().multiprocessors,
      device.facts().multiprocessors);
  EXPECT_LT(*seen.sm_active, 0.2);
}

// Sampling is apart from timing: what is timed before and after it takes as long.
TEST_P(GpuUtilisation, LeavesTheTimesOfLaunchesAlone) {
  CudaDevice device;
  const Shape shape = {1024};
  const Tensor from(device, DType::f32, shape, "from"), to(device, DType::f32, shape, "to");
  const RateProbe copy =
      device.stream_probes().at(0).prepare({.a = from.view, .to = to.view, .b = {}});
  const auto launch_us = [&] {
    constexpr int kCalls = 5000, kRepetitions = 5;
    double best = 1e9;
    for (int repeat = 0; repeat < kRepetitions; ++repeat)
      best = std::min(best, 1e3 * device.time_ms([&] {
        for (int call = 0; call < kCalls; ++call) copy.start();
      }) / kCalls);
    return best;
  };
  launch_us();
  const double before = launch_us();
  UtilisationMeter counting = meter(device);
  const Utilisation seen = counting.measure(device, copy.start);
  const double after = launch_us();
  print("a launch takes {:.3f} us before and {:.3f} us after counters were read by {}\n", before,
        after, GetParam());
  RIDGELINE_NEEDS_COUNTERS(seen);
  EXPECT_LT(after, 1.1 * before);
}

INSTANTIATE_TEST_SUITE_P(Slow, GpuUtilisation, ::testing::Values("GPM", "CUPTI"),
                         [](const auto& source) { return std::string(source.param); });

}  // namespace
}  // namespace ridgeline
