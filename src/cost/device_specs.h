// What GPUs can do at most: dense peaks from their data sheets, and a bound derived from the
// architecture for those that are not listed.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ridgeline {

// Dense: twice as high figures in advertisements count zeros that sparsity skips. TFLOP/s with an
// FMA as two, at the boost clock of the data sheet, products summed in fp32; 0: no such unit.
struct GpuSpec {
  std::string_view name;                  // for people
  std::array<std::string_view, 2> words;  // all are in the driver's name of the model
  double fp16 = 0;
  double bf16 = 0;
  double tf32 = 0;
  double fp32 = 0;  // of the ordinary cores
  double fp8 = 0;
  double gigabytes_per_s = 0;   // memory
  double memory_gigabytes = 0;  // decimal, as it is sold
};

// The first row whose words a model contains is its own: longer names come first.
std::span<const GpuSpec> gpu_specs();

// By the driver's name of the model, such as "NVIDIA H100 80GB HBM3"; null: not listed.
const GpuSpec* find_gpu_spec(std::string_view model);

// What people type: "A100", "h100-pcie", "4090", "A100-40GB": the row whose name has all these
// parts; of several the last, which is the largest of its kind. Throws a usage error that lists the
// names.
const GpuSpec& parse_gpu(std::string_view text);
// "A100-SXM-80-GB": its name without spaces, which parse_gpu() reads.
std::string typed_name(const GpuSpec& spec);

// The row's own figure for "bf16", "fp16", "tf32", "fp32" or "fp8"; 0: none.
double dense_tflops(const GpuSpec& spec, std::string_view dtype);

// FLOPs per byte from which a kernel is no longer limited by memory, on paper; empty: no such unit.
std::optional<double> ridge_point(const GpuSpec& spec, std::string_view dtype);

// The fastest way to the accuracy of a dtype, as a bound: scaled fp16 numbers have the ten bits of
// TF32, and three products of narrow numbers make one of fp32.
double reachable_tflops(const GpuSpec& spec, std::string_view dtype);

// What bounds a GPU whether or not it is listed.
struct GpuLimits {
  std::string model;
  int compute_capability = 0;  // 90: 9.0
  int multiprocessors = 0;
  double clock_hz = 0;
};

// Multiprocessors x clock x FLOPs per cycle of the architecture; empty for an architecture or a
// dtype without a row. The fastest way counts, as in reachable_tflops.
std::optional<double> gpu_flops_per_s(const GpuLimits& limits, std::string_view dtype);

// "sm_90a" -> 90; 0: not an architecture.
int compute_capability(std::string_view arch);

}  // namespace ridgeline
