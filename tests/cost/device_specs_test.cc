// The table of GPUs: names as drivers give them, and peaks that agree with the architecture.
#include "cost/device_specs.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace ridgeline {
namespace {

TEST(GpuSpecs, AreFoundByTheNamesThatDriversGive) {
  const std::map<std::string, std::string> rows = {
      {"NVIDIA A100-SXM4-40GB", "A100 SXM 40 GB"},
      {"NVIDIA A100-SXM4-80GB", "A100 SXM 80 GB"},
      {"NVIDIA A100 80GB PCIe", "A100 PCIe 80 GB"},
      {"NVIDIA H100 80GB HBM3", "H100 SXM"},
      {"NVIDIA H100 PCIe", "H100 PCIe"},
      {"NVIDIA H100 NVL", "H100 NVL"},
      {"NVIDIA H200", "H200 SXM"},
      {"NVIDIA B200", "B200"},
      {"NVIDIA L4", "L4"},
      {"NVIDIA L40S", "L40S"},
      {"NVIDIA A10", "A10"},
      {"NVIDIA RTX A6000", "RTX A6000"},
      {"NVIDIA GeForce RTX 4090", "RTX 4090"},
      {"NVIDIA GeForce RTX 3090", "RTX 3090"},
      {"Tesla T4", "T4"},
      {"Tesla V100-SXM2-16GB", "V100 SXM 16 GB"},
      {"Tesla V100-PCIE-32GB", "V100 PCIe 32 GB"},
  };
  for (const auto& [model, row] : rows) {
    const GpuSpec* spec = find_gpu_spec(model);
    ASSERT_NE(spec, nullptr) << model;
    EXPECT_EQ(spec->name, row) << model;
  }
}

TEST(GpuSpecs, AreFoundByTheNamesThatPeopleType) {
  const std::map<std::string, std::string> rows = {
      {"A100", "A100 SXM 80 GB"},
      {"A100-40GB", "A100 SXM 40 GB"},
      {"a100 pcie", "A100 PCIe 80 GB"},
      {"H100", "H100 SXM"},
      {"h100-pcie", "H100 PCIe"},
      {"H200", "H200 SXM"},
      {"4090", "RTX 4090"},
      {"A6000", "RTX A6000"},
      {"A10", "A10"},
      {"V100", "V100 SXM 32 GB"},
      {"T4", "T4"},
      {"L4", "L4"},
      {"L40S", "L40S"},
      {"B200", "B200"},
      {"V100_16", "V100 SXM 16 GB"},
  };
  for (const auto& [typed, row] : rows) EXPECT_EQ(parse_gpu(typed).name, row) << typed;
  for (const GpuSpec& spec : gpu_specs()) EXPECT_EQ(parse_gpu(typed_name(spec)).name, spec.name);
  for (const char* typed : {"", "A1000", "GB", "A100 H100"}) EXPECT_THROW(parse_gpu(typed), Error);
}

TEST(GpuSpecs, ANameThatOnlyLooksAlikeIsNotListed) {
  for (const char* model : {"NVIDIA L40", "NVIDIA A10G", "NVIDIA GH200 480GB", "NVIDIA GB200",
                            "NVIDIA RTX 6000 Ada Generation", ""})
    EXPECT_EQ(find_gpu_spec(model), nullptr) << model;
}

// A figure that a factor of two (sparsity) has slipped into would be far from what the
// multiprocessors do in their boost clock.
TEST(GpuSpecs, AreDense) {
  struct Card {
    const char* model;
    int compute_capability, multiprocessors;
    double boost_hz;
  };
  for (const Card& card :
       {Card{"NVIDIA A100-SXM4-80GB", 80, 108, 1.41e9},
        Card{"NVIDIA H100 80GB HBM3", 90, 132, 1.83e9}, Card{"NVIDIA H100 PCIe", 90, 114, 1.62e9},
        Card{"NVIDIA H200", 90, 132, 1.83e9}, Card{"NVIDIA L4", 89, 58, 2.04e9},
        Card{"NVIDIA L40S", 89, 142, 2.52e9}, Card{"NVIDIA A10", 86, 72, 1.695e9},
        Card{"NVIDIA RTX A6000", 86, 84, 1.8e9}, Card{"NVIDIA B200", 100, 148, 1.85e9},
        Card{"Tesla V100-SXM2-32GB", 70, 80, 1.53e9}, Card{"Tesla T4", 75, 40, 1.59e9}}) {
    const GpuLimits limits{.model = card.model,
                           .compute_capability = card.compute_capability,
                           .multiprocessors = card.multiprocessors,
                           .clock_hz = card.boost_hz};
    const GpuSpec* spec = find_gpu_spec(card.model);
    ASSERT_NE(spec, nullptr) << card.model;
    EXPECT_TRUE(spec->dense.bf16 == spec->dense.fp16 || spec->dense.bf16 == 0) << card.model;
    for (const char* dtype : {"fp16", "tf32", "fp32"})
      EXPECT_NEAR(1e12 * reachable_tflops(*spec, dtype) / gpu_flops_per_s(limits, dtype).value(), 1,
                  0.06)
          << card.model << ' ' << dtype;
  }
}

TEST(GpuSpecs, TheBoundIsTheFastestWayToTheAccuracyOfTheDtype) {
  const GpuSpec* h200 = find_gpu_spec("NVIDIA H200");
  EXPECT_EQ(dense_tflops(*h200, "tf32"), 494.7);
  EXPECT_EQ(dense_tflops(*h200, "fp32"), 66.9);
  EXPECT_EQ(reachable_tflops(*h200, "tf32"), 989.4) << "scaled fp16 has the bits of TF32";
  EXPECT_EQ(reachable_tflops(*h200, "fp32"), 989.4 / 3) << "three products";
  EXPECT_EQ(reachable_tflops(*h200, "bf16"), 989.4);
}

TEST(GpuSpecs, TheArchitectureIsReadFromItsName) {
  EXPECT_EQ(compute_capability("sm_90a"), 90);
  EXPECT_EQ(compute_capability("sm_80"), 80);
  EXPECT_EQ(compute_capability("sm_100a"), 100);
  EXPECT_EQ(compute_capability("avx512"), 0);
  EXPECT_EQ(compute_capability(""), 0);
}

}  // namespace
}  // namespace ridgeline
