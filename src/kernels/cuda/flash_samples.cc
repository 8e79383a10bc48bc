// Attention kernels that stand for all that the planners can ask for: every width, dtype and mask,
// on GPUs with much and with little shared memory.
#include <algorithm>

#include "kernels/cuda/kernels.h"

namespace ridgeline {
namespace {

struct SampleProblem {
  DType dtype;
  int64_t width;
  AttentionMask mask;
  int64_t length = 1024;
};

// The planners look at addresses, but only for alignment.
TensorView fake(DType dtype, const Shape& shape) {
  return {reinterpret_cast<void*>(uintptr_t{0x1000}), dtype, shape, contiguous_strides(shape)};
}

// Every candidate of every choice is a sample.
std::vector<CudaLaunch> launches(const SampleProblem& problem, const CudaFacts& device) {
  std::vector<CudaLaunch> all;
  const CudaChooser choose = [&](const std::string&, size_t count, const auto& candidate) {
    for (size_t i = 0; i < count; ++i)
      for (const CudaLaunch& launch : candidate(i)) all.push_back(launch);
    return size_t{0};
  };
  const TensorView x = fake(problem.dtype, {2, 4, problem.length, problem.width});
  const TensorView sums = fake(DType::f32, {2, 4, problem.length});
  const auto plan = [&](Op op, BackwardAlgorithm backward, const std::vector<TensorView>& inputs,
                        const std::vector<TensorView>& outputs) {
    const Node node{
        .op = op,
        .inputs = {},
        .attributes = {.detail = AttentionSpec{.mask = problem.mask, .backward = backward},
                       .target = {}},
        .outputs = {},
        .name = {}};
    cuda_planner(op)({.node = node,
                      .inputs = inputs,
                      .outputs = outputs,
                      .device = device,
                      .scratch = x.data,
                      .choose = choose});
  };
  plan(Op::attention, {}, {x, x, x}, {x, sums});
  for (auto backward : {BackwardAlgorithm::single_pass, BackwardAlgorithm::two_pass})
    plan(Op::attention_gradient, backward, {x, x, x, x, sums, x}, {x, x, x});
  return all;
}

}  // namespace

std::vector<CudaKernel> flash_samples() {
  CudaFacts roomy, tight;
  roomy.shared_bytes_per_block = 227 << 10;
  tight.shared_bytes_per_block = 99 << 10;
  roomy.multiprocessors = tight.multiprocessors = 100;

  const AttentionMask masks[] = {{}, {.causal = true}, {.causal = true, .window = 100}};
  std::vector<SampleProblem> problems;
  size_t turn = 0;
  for (int64_t width : {16, 32, 64, 80, 96, 128, 192, 256, 72, 50})
    for (DType dtype : {DType::bf16, DType::f16, DType::f32, DType::tf32})
      problems.push_back({dtype, width, masks[turn++ % 3]});
  for (const AttentionMask& mask : masks) problems.push_back({DType::bf16, 64, mask, 128});

  std::vector<CudaKernel> kernels;
  for (const SampleProblem& problem : problems)
    for (const CudaFacts& device : {roomy, tight})
      for (const CudaLaunch& launch : launches(problem, device))
        if (std::find(kernels.begin(), kernels.end(), launch.kernel) == kernels.end())
          kernels.push_back(launch.kernel);
  return kernels;
}

}  // namespace ridgeline
