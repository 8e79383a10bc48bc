#include "cost/device_specs.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>
#include <vector>

#include "base/closest.h"

namespace ridgeline {
namespace {

constexpr GpuRates with_bf16(GpuRates rates) {
  rates.bf16 = rates.fp16;
  return rates;
}

// Each row names its source, an NVIDIA publication. Where that gives figures with sparsity only,
// the dense rate is half of them. GeForce cards accumulate in fp32 at half the rate of professional
// cards. Order matters: parse_gpu() picks the last row that matches a short name such as A100.
constexpr GpuSpec kSpecs[] = {
    // T4 data sheet: "mixed precision" and "single precision".
    {.name = "T4",
     .words = {"T4", ""},
     .dense = {.fp16 = 65, .fp32 = 8.1},
     .gigabytes_per_s = 320,
     .memory_gigabytes = 16},
    // V100 data sheet: "tensor performance" is fp16, dense.
    {.name = "V100 PCIe 16 GB",
     .words = {"V100", "PCIE-16GB"},
     .dense = {.fp16 = 112, .fp32 = 14},
     .gigabytes_per_s = 900,
     .memory_gigabytes = 16},
    {.name = "V100 PCIe 32 GB",
     .words = {"V100", "PCIE-32GB"},
     .dense = {.fp16 = 112, .fp32 = 14},
     .gigabytes_per_s = 900,
     .memory_gigabytes = 32},
    {.name = "V100 SXM 16 GB",
     .words = {"V100", "SXM2-16GB"},
     .dense = {.fp16 = 125, .fp32 = 15.7},
     .gigabytes_per_s = 900,
     .memory_gigabytes = 16},
    {.name = "V100 SXM 32 GB",
     .words = {"V100", "SXM2-32GB"},
     .dense = {.fp16 = 125, .fp32 = 15.7},
     .gigabytes_per_s = 900,
     .memory_gigabytes = 32},
    // A100 data sheets (40 GB, 80 GB): dense and sparse.
    {.name = "A100 PCIe 40 GB",
     .words = {"A100", "PCIE-40GB"},
     .dense = with_bf16({.fp16 = 312, .tf32 = 156, .fp32 = 19.5}),
     .gigabytes_per_s = 1555,
     .memory_gigabytes = 40},
    {.name = "A100 SXM 40 GB",
     .words = {"A100", "SXM4-40GB"},
     .dense = with_bf16({.fp16 = 312, .tf32 = 156, .fp32 = 19.5}),
     .gigabytes_per_s = 1555,
     .memory_gigabytes = 40},
    {.name = "A100 PCIe 80 GB",
     .words = {"A100", "PCIe"},
     .dense = with_bf16({.fp16 = 312, .tf32 = 156, .fp32 = 19.5}),
     .gigabytes_per_s = 1935,
     .memory_gigabytes = 80},
    {.name = "A100 SXM 80 GB",
     .words = {"A100", ""},
     .dense = with_bf16({.fp16 = 312, .tf32 = 156, .fp32 = 19.5}),
     .gigabytes_per_s = 2039,
     .memory_gigabytes = 80},
    // H100 data sheet: with sparsity only; the paper "H100 Tensor Core GPU Architecture": dense.
    {.name = "H100 PCIe",
     .words = {"H100", "PCIe"},
     .dense = with_bf16({.fp16 = 756.5, .tf32 = 378, .fp32 = 51.2, .fp8 = 1513}),
     .gigabytes_per_s = 2039,
     .memory_gigabytes = 80},
    {.name = "H100 NVL",
     .words = {"H100", "NVL"},
     .dense = with_bf16({.fp16 = 835.5, .tf32 = 417.5, .fp32 = 60, .fp8 = 1671}),
     .gigabytes_per_s = 3938,
     .memory_gigabytes = 94},
    {.name = "H100 SXM",
     .words = {"H100", "HBM3"},
     .dense = with_bf16({.fp16 = 989.4, .tf32 = 494.7, .fp32 = 66.9, .fp8 = 1978.9}),
     .gigabytes_per_s = 3352,
     .memory_gigabytes = 80},
    // H200 data sheet: with sparsity only.
    {.name = "H200 NVL",
     .words = {"H200", "NVL"},
     .dense = with_bf16({.fp16 = 835.5, .tf32 = 417.5, .fp32 = 60, .fp8 = 1671}),
     .gigabytes_per_s = 4800,
     .memory_gigabytes = 141},
    {.name = "H200 SXM",
     .words = {"H200", ""},
     .dense = with_bf16({.fp16 = 989.4, .tf32 = 494.7, .fp32 = 66.9, .fp8 = 1978.9}),
     .gigabytes_per_s = 4800,
     .memory_gigabytes = 141},
    // DGX B200 and HGX B200 data sheets, dense: an eighth of a system.
    {.name = "B200",
     .words = {"B200", ""},
     .dense = with_bf16({.fp16 = 2250, .tf32 = 1125, .fp32 = 75, .fp8 = 4500}),
     .gigabytes_per_s = 8000,
     .memory_gigabytes = 180},
    // L40S data sheet: dense and sparse.
    {.name = "L40S",
     .words = {"L40S", ""},
     .dense = with_bf16({.fp16 = 362.05, .tf32 = 183, .fp32 = 91.6, .fp8 = 733}),
     .gigabytes_per_s = 864,
     .memory_gigabytes = 48},
    // L4 data sheet: with sparsity only.
    {.name = "L4",
     .words = {"NVIDIA L4", ""},
     .dense = with_bf16({.fp16 = 121, .tf32 = 60.5, .fp32 = 30.3, .fp8 = 242.5}),
     .gigabytes_per_s = 300,
     .memory_gigabytes = 24},
    // RTX A6000 data sheet: with sparsity only (309.7).
    {.name = "RTX A6000",
     .words = {"RTX A6000", ""},
     .dense = with_bf16({.fp16 = 154.8, .tf32 = 77.4, .fp32 = 38.7}),
     .gigabytes_per_s = 768,
     .memory_gigabytes = 48},
    // A10 data sheet: dense and sparse.
    {.name = "A10",
     .words = {"NVIDIA A10", ""},
     .dense = with_bf16({.fp16 = 125, .tf32 = 62.5, .fp32 = 31.2}),
     .gigabytes_per_s = 600,
     .memory_gigabytes = 24},
    // The paper "Ampere GA102 GPU Architecture": dense, accumulation in fp32.
    {.name = "RTX 3090",
     .words = {"RTX 3090", ""},
     .dense = with_bf16({.fp16 = 71, .tf32 = 35.6, .fp32 = 35.6}),
     .gigabytes_per_s = 936,
     .memory_gigabytes = 24},
    // The paper "Ada GPU Architecture": dense, accumulation in fp32.
    {.name = "RTX 4090",
     .words = {"RTX 4090", ""},
     .dense = with_bf16({.fp16 = 165.2, .tf32 = 82.6, .fp32 = 82.6, .fp8 = 330.3}),
     .gigabytes_per_s = 1008,
     .memory_gigabytes = 24},
};

struct Architecture {
  int compute_capability;
  GpuRates flops_per_cycle;  // of one multiprocessor
};

constexpr GpuRates kVolta = {.fp16 = 1024, .fp32 = 128};
constexpr GpuRates kLargeAmpere = with_bf16({.fp16 = 2048, .tf32 = 1024, .fp32 = 128});
constexpr GpuRates kAmpere = with_bf16({.fp16 = 1024, .tf32 = 512, .fp32 = 256});
constexpr GpuRates kAda = with_bf16({.fp16 = 1024, .tf32 = 512, .fp32 = 256, .fp8 = 2048});
constexpr GpuRates kHopper = with_bf16({.fp16 = 4096, .tf32 = 2048, .fp32 = 256, .fp8 = 8192});
constexpr GpuRates kBlackwell = with_bf16({.fp16 = 8192, .tf32 = 4096, .fp32 = 256, .fp8 = 16384});

// Rates of the fastest card of each architecture: an upper bound, loose for GeForce.
constexpr Architecture kArchitectures[] = {
    {70, kVolta}, {75, kVolta},  {80, kLargeAmpere}, {86, kAmpere},     {87, kAmpere},
    {89, kAda},   {90, kHopper}, {100, kBlackwell},  {103, kBlackwell}, {120, kAda},
};

// Matches whole words: "L4" is not in "L40", "A10" not in "A100" or "A10G", "H200" not in "GH200".
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

// Returns "a100", "sxm", "80" for both "A100-SXM-80GB" and "A100 SXM 80 GB".
std::vector<std::string> name_parts(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  const auto end_part = [&] {
    if (part.ends_with("gb")) part.resize(part.size() - 2);
    if (!part.empty()) parts.push_back(std::exchange(part, {}));
  };
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      part += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else
      end_part();
  }
  end_part();
  return parts;
}

double rate(const GpuRates& rates, std::string_view dtype) {
  if (dtype == "fp16") return rates.fp16;
  if (dtype == "bf16") return rates.bf16;
  if (dtype == "tf32") return rates.tf32;
  if (dtype == "fp32") return rates.fp32;
  if (dtype == "fp8") return rates.fp8;
  return 0;
}

double reachable_rate(const GpuRates& rates, std::string_view dtype) {
  const double ten_bits = std::max(rates.tf32, rates.fp16);
  if (dtype == "tf32") return ten_bits;
  if (dtype == "fp32") return std::max(rates.fp32, ten_bits / 3);
  return rate(rates, dtype);
}

}  // namespace

double dense_tflops(const GpuSpec& spec, std::string_view dtype) {
  return rate(spec.dense, dtype);
}

std::optional<double> ridge_point(const GpuSpec& spec, std::string_view dtype) {
  const double tflops = dense_tflops(spec, dtype);
  if (tflops <= 0 || spec.gigabytes_per_s <= 0) return std::nullopt;
  return 1e3 * tflops / spec.gigabytes_per_s;
}

double reachable_tflops(const GpuSpec& spec, std::string_view dtype) {
  return reachable_rate(spec.dense, dtype);
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

std::string typed_name(const GpuSpec& spec) {
  std::string text(spec.name);
  std::ranges::replace(text, ' ', '-');
  return text;
}

const GpuSpec& parse_gpu(std::string_view text) {
  const std::vector<std::string> asked = name_parts(text);
  const GpuSpec* found = nullptr;
  for (const GpuSpec& spec : kSpecs) {
    const std::vector<std::string> parts = name_parts(spec.name);
    if (!asked.empty() && std::ranges::all_of(asked, [&](const std::string& part) {
          return std::ranges::count(parts, part) > 0;
        }))
      found = &spec;
  }
  if (found != nullptr) return *found;
  KnownNames known{.what = "a GPU whose data sheet is known", .names = {}};
  for (const GpuSpec& spec : kSpecs) known.names.push_back(typed_name(spec));
  throw unknown_name(text, known);
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
