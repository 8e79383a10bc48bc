// The text of a fused kernel, for the host's compiler or for NVRTC.
//
//   HostText text = emit_host(kernel);      // extern "C" void <entry>(HostArguments...)
//   CudaText text = emit_cuda(kernel, {});  // extern "C" __global__ void <entry>(Params)
//
// Dtypes, the widths of folded rows, and the layout of operands along a row are part of the text;
// everything else is an argument. So layers share kernels, and sweeps over batch and length need no
// compilation.
#pragma once

#include <string>
#include <vector>

#include "plan/program.h"

namespace ridgeline {

struct HostText {
  std::string entry = {};
  std::string text = {};
  std::vector<float> constants = {};
  int64_t kept_rows = 0;  // scratch of one thread, in rows of fp32
};
HostText emit_host(const FusedKernel& kernel);

// How threads share the work of a CUDA kernel.
struct CudaShape {
  int pack = 1;    // adjacent columns that a thread reads in one access
  int group = 32;  // threads that share a folded row
  int chunks = 1;  // packs of a row that a thread holds in registers; 0: rows are read again
  int threads = 256;
  bool wide_index = false;  // rows or items do not fit 31 bits
};
// A block of a column kernel: lanes along the columns, and lines that share the rows.
inline constexpr int kColumnLanes = 32, kColumnLines = 8;

struct CudaText {
  std::string entry = {};
  std::string text = {};
  std::vector<float> constants = {};
};
// The argument is a struct of 8-byte words: rows, columns, parts, the address of the parts; sizes
// of the rows' axes; constants in pairs; and per operand its address, its stride between columns,
// and its strides along the rows' axes.
CudaText emit_cuda(const FusedKernel& kernel, const CudaShape& shape);
// For a column kernel: folds the results of the parts.
CudaText emit_cuda_finish(const FusedKernel& kernel);

// For a kernel with a product: everything except the product, which product_packs.cuh computes.
// Constants are part of the text.
CudaText emit_product(const FusedKernel& kernel);

struct Plan;
struct ResidentPlan;

// A resident kernel: the text of its generated steps, followed by resident_kernel.cuh.
struct ResidentText {
  std::string entry = {};
  std::string text = {};
  // By step of the plan: the generated text of a local step, or of a product that combines two rows
  // into one number.
  std::vector<int> numbers = {};
};
ResidentText emit_resident(const Plan& plan, const ResidentPlan& resident);

// Functions and types that all host texts use; precedes any number of them once.
const std::string& host_preamble();

}  // namespace ridgeline
