// Peak rates of GPUs: dense ones from data sheets, and an upper bound derived from the architecture
// for GPUs that are not listed.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ridgeline {

// By dtype, fp32 of CUDA cores; 0: no such unit.
struct GpuRates {
  double fp16 = 0, bf16 = 0, tf32 = 0, fp32 = 0, fp8 = 0;
};

struct GpuSpec {
  std::string_view name;                  // for display
  std::array<std::string_view, 2> words;  // all occur in the driver's name of the model
  // TFLOP/s without the factor of two for sparsity, with an FMA as two FLOPs, at the boost clock of
  // the data sheet and with accumulation in fp32.
  GpuRates dense = {};
  double gigabytes_per_s = 0;   // memory
  double memory_gigabytes = 0;  // decimal, as it is sold
};

// All rows. find_gpu_spec() takes the first match, so that more specific rows come first.
std::span<const GpuSpec> gpu_specs();

// Finds a row by the driver's name of the model, such as "NVIDIA H100 80GB HBM3"; null: not listed.
const GpuSpec* find_gpu_spec(std::string_view model);

// Finds a row by user input such as "A100", "h100-pcie", "4090" or "A100-40GB": the last row whose
// name has all of these parts, which is the largest of its kind. Throws a usage error that lists
// the names.
const GpuSpec& parse_gpu(std::string_view text);
// The name with hyphens for spaces, as parse_gpu() reads it: "A100-SXM-80-GB".
std::string typed_name(const GpuSpec& spec);

// The rate for "bf16", "fp16", "tf32", "fp32" or "fp8"; 0: none.
double dense_tflops(const GpuSpec& spec, std::string_view dtype);

// The theoretical ridge point in FLOPs per byte; empty: no such unit.
std::optional<double> ridge_point(const GpuSpec& spec, std::string_view dtype);

// An upper bound on the rate at the accuracy of a dtype: scaled fp16 has the ten bits of TF32, and
// three products of a narrow dtype emulate one of fp32.
double reachable_tflops(const GpuSpec& spec, std::string_view dtype);

// What bounds a GPU, listed or not.
struct GpuLimits {
  std::string model;
  int compute_capability = 0;  // 90: 9.0
  int multiprocessors = 0;
  double clock_hz = 0;
};

// Multiprocessors x clock x FLOPs per cycle of the architecture, at the accuracy of a dtype as in
// reachable_tflops(); empty for an architecture or a dtype without a row.
std::optional<double> gpu_flops_per_s(const GpuLimits& limits, std::string_view dtype);

// Returns 90 for "sm_90a", and 0 for text that is not an architecture.
int compute_capability(std::string_view arch);

}  // namespace ridgeline
