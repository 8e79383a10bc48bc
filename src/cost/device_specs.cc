#include "cost/device_specs.h"

#include <algorithm>
#include <charconv>

namespace ridgeline {
namespace {

// Data sheets of NVIDIA. GeForce cards sum in fp32 at half the rate of their professional sisters.
constexpr GpuSpec kSpecs[] = {
    {"A100 SXM 40 GB", {"A100", "SXM4-40GB"}, 312, 156, 19.5, 0, 1555, 40},
    {"A100 PCIe 40 GB", {"A100", "PCIE-40GB"}, 312, 156, 19.5, 0, 1555, 40},
    {"A100 PCIe 80 GB", {"A100", "PCIe"}, 312, 156, 19.5, 0, 1935, 80},
    {"A100 SXM 80 GB", {"A100", ""}, 312, 156, 19.5, 0, 2039, 80},
    {"H100 PCIe", {"H100", "PCIe"}, 756.5, 378, 51.2, 1513, 2039, 80},
    {"H100 NVL", {"H100", "NVL"}, 835.5, 417.5, 60, 1671, 3938, 94},
    {"H100 SXM", {"H100", "HBM3"}, 989.4, 494.7, 66.9, 1978.9, 3352, 80},
    {"H200 NVL", {"H200", "NVL"}, 835.5, 417.5, 60, 1671, 4800, 141},
    {"H200 SXM", {"H200", ""}, 989.4, 494.7, 66.9, 1978.9, 4800, 141},
    {"B200", {"B200", ""}, 2250, 1125, 75, 4500, 8000, 180},
    {"L40S", {"L40S", ""}, 362.05, 183, 91.6, 733, 864, 48},
    {"L4", {"NVIDIA L4", ""}, 121, 60.5, 30.3, 242.5, 300, 24},
    {"RTX A6000", {"RTX A6000", ""}, 154.8, 77.4, 38.7, 0, 768, 48},
    {"A10", {"NVIDIA A10", ""}, 125, 62.5, 31.2, 0, 600, 24},
    {"RTX 4090", {"RTX 4090", ""}, 165.2, 82.6, 82.6, 330.3, 1008, 24},
};

// The rates of one row, per dtype.
struct Rates {
  double half, tf32, fp32, fp8;
};

struct Architecture {
  int compute_capability;
  Rates flops_per_cycle;  // of one multiprocessor
};

// Of the best card of each architecture: as a bound, generous for GeForce.
constexpr Architecture kArchitectures[] = {
    {80, {2048, 1024, 128, 0}},      {86, {1024, 512, 256, 0}},     {87, {1024, 512, 256, 0}},
    {89, {1024, 512, 256, 2048}},    {90, {4096, 2048, 256, 8192}}, {100, {8192, 4096, 256, 16384}},
    {103, {8192, 4096, 256, 16384}}, {120, {1024, 512, 256, 2048}},
};

// Whole words: "L4" is not an L40, "A10" neither an A100 nor an A10G, "H200" not a GH200.
bool contains_word(std::string_view text, std::string_view word) {
  const auto is_alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if (word.empty()) return true;
    const bool begins = at == 0 || !is_alphanumeric(text[at - 1]);
    if (begins && (end == text.size() || !is_alphanumeric(text[end]))) return true;
  }
  return false;
}

double rate(const Rates& rates, std::string_view dtype) {
  if (dtype == "bf16" || dtype == "fp16") return rates.half;
  if (dtype == "tf32") return rates.tf32;
  if (dtype == "fp32") return rates.fp32;
  if (dtype == "fp8") return rates.fp8;
  return 0;
}

double reachable_rate(const Rates& rates, std::string_view dtype) {
  const double ten_bits = std::max(rates.tf32, rates.half);
  if (dtype == "tf32") return ten_bits;
  if (dtype == "fp32") return std::max(rates.fp32, ten_bits / 3);
  return rate(rates, dtype);
}

Rates rates_of(const GpuSpec& spec) {
  return {spec.bf16, spec.tf32, spec.fp32, spec.fp8};
}

}  // namespace

double dense_tflops(const GpuSpec& spec, std::string_view dtype) {
  return rate(rates_of(spec), dtype);
}

std::optional<double> ridge_point(const GpuSpec& spec, std::string_view dtype) {
  const double tflops = dense_tflops(spec, dtype);
  if (tflops <= 0 || spec.gigabytes_per_s <= 0) return std::nullopt;
  return 1e3 * tflops / spec.gigabytes_per_s;
}

double reachable_tflops(const GpuSpec& spec, std::string_view dtype) {
  return reachable_rate(rates_of(spec), dtype);
}

std::span<const GpuSpec> gpu_specs() {
  return kSpecs;
}

const GpuSpec* find_gpu_spec(std::string_view model) {
  for (const GpuSpec& spec : kSpecs)
    if (std::all_of(spec.words.begin(), spec.words.end(),
                    [&](std::string_view word) { return contains_word(model, word); }))
      return &spec;
  return nullptr;
}

std::optional<double> gpu_flops_per_s(const GpuLimits& limits, std::string_view dtype) {
  for (const Architecture& row : kArchitectures) {
    if (row.compute_capability != limits.compute_capability) continue;
    const double flops =
        reachable_rate(row.flops_per_cycle, dtype) * limits.multiprocessors * limits.clock_hz;
    return flops > 0 ? std::optional(flops) : std::nullopt;
  }
  return std::nullopt;
}

int compute_capability(std::string_view arch) {
  constexpr std::string_view kPrefix = "sm_";
  int value = 0;
  if (!arch.starts_with(kPrefix)) return 0;
  std::from_chars(arch.data() + kPrefix.size(), arch.data() + arch.size(), value);
  return value;
}

}  // namespace ridgeline
