// Attention kernels that stand for all that the planners can ask for: every width and dtype, with
// masks in turns, on GPUs with much and with little shared memory, and with few multiprocessors; on
// Hopper also every width with every mask.
#include <algorithm>
#include <memory>

#include "graph/score_function.h"
#include "graph/tensor.h"
#include "kernels/cuda/kernels.h"

namespace ridgeline {
namespace {

struct SampleProblem {
  DType dtype;
  int64_t width;
  AttentionMask mask;
  int64_t length = 1024;
  std::shared_ptr<const ScoreFunction> function = {};  // of one operand, [2, 4, length, 1]
};

// The planners look at addresses, but only for alignment.
TensorView flash_tensor(DType dtype, const Shape& shape) {
  return {reinterpret_cast<void*>(uintptr_t{0x1000}), dtype, shape, contiguous_strides(shape)};
}

// score * operand
std::shared_ptr<const ScoreFunction> product_function() {
  const auto inputs = [](Graph& graph) {
    return std::pair{input(graph, "score", {DType::f32, {}}),
                     input(graph, "operand0", {DType::f32, {}})};
  };
  auto function = std::make_shared<ScoreFunction>();
  const auto [score, operand] = inputs(function->value);
  function->value.mark_output("result", (score * operand).value());
  const auto [same_score, same_operand] = inputs(function->gradient);
  const Tensor d_result = input(function->gradient, "d_result", {DType::f32, {}});
  function->gradient.mark_output("d_score", (d_result * same_operand).value());
  function->gradient.mark_output("d_operand0", (d_result * same_score).value());
  return function;
}

// Every candidate of every choice is a sample; with a function, whose registers are anybody's
// guess, only the first.
std::vector<CudaLaunch> launches(const SampleProblem& problem, const CudaFacts& device) {
  std::vector<CudaLaunch> all;
  const bool plain = problem.function == nullptr;
  const CudaChooser choose = [&](const std::string&, size_t count, const auto& candidate) {
    for (size_t i = 0; i < (plain ? count : 1); ++i)
      for (const CudaLaunch& launch : candidate(i)) all.push_back(launch);
    return size_t{0};
  };
  const TensorView x = flash_tensor(problem.dtype, {2, 4, problem.length, problem.width});
  const TensorView sums = flash_tensor(DType::f32, {2, 4, problem.length});
  const auto plan = [&](Op op, BackwardAlgorithm backward, const std::vector<TensorView>& inputs,
                        const std::vector<TensorView>& outputs) {
    const Node node{.op = op,
                    .inputs = {},
                    .attributes = {.detail = AttentionSpec{.mask = problem.mask,
                                                           .backward = backward,
                                                           .function = problem.function,
                                                           .operand_gradients = plain ? 0u : 1u},
                                   .target = {}},
                    .outputs = {},
                    .name = {}};
    const std::vector<CudaLaunch> chosen = cuda_op(op).plan({.node = node,
                                                             .inputs = inputs,
                                                             .outputs = outputs,
                                                             .device = device,
                                                             .scratch = x.data,
                                                             .choose = choose});
    all.insert(all.end(), chosen.begin(), chosen.end());
  };
  const TensorView operand = flash_tensor(DType::bf16, {2, 4, problem.length, 1});
  const auto with_operand = [&](std::vector<TensorView> tensors) {
    if (!plain) tensors.push_back(operand);
    return tensors;
  };
  plan(Op::attention, {}, with_operand({x, x, x}), {x, sums});
  for (auto backward : {BackwardAlgorithm::single_pass, BackwardAlgorithm::two_pass})
    plan(Op::attention_gradient, backward, with_operand({x, x, x, x, sums, x}),
         with_operand({x, x, x}));
  return all;
}

}  // namespace

std::vector<CudaKernel> flash_samples(int compute_capability) {
  CudaFacts roomy;
  roomy.compute_capability = compute_capability;
  roomy.shared_bytes_per_block = 227 << 10;
  roomy.multiprocessors = 100;
  CudaFacts tight = roomy, busy = roomy;
  tight.shared_bytes_per_block = 99 << 10;
  busy.multiprocessors = 4;  // many tiles for each

  const AttentionMask masks[] = {{}, {.causal = true}, {.causal = true, .window = 100}};
  std::vector<SampleProblem> problems;
  size_t turn = 0;
  for (int64_t width : {16, 32, 64, 80, 96, 128, 192, 256, 72, 50})
    for (DType dtype : {DType::bf16, DType::f16, DType::f32, DType::tf32})
      problems.push_back({dtype, width, masks[turn++ % 3]});
  // Hopper's own kernels count every register.
  if (compute_capability == 90) {
    for (int64_t width : {64, 80, 96, 112, 128, 160, 192, 224, 256})
      for (const AttentionMask& mask : masks) problems.push_back({DType::bf16, width, mask});
    problems.push_back({DType::bf16, 48, masks[1]});
    // Of short sequences those with the most keys a step, and a number of them that no other has.
    for (int64_t width : {112, 128, 192}) problems.push_back({DType::bf16, width, {}, 512});
    problems.push_back({DType::bf16, 96, {}, 110});
  }
  for (const AttentionMask& mask : masks) problems.push_back({DType::bf16, 64, mask, 128});
  for (DType dtype : {DType::bf16, DType::f32})
    problems.push_back({dtype, 64, masks[1], 1024, product_function()});

  std::vector<CudaKernel> kernels;
  for (const SampleProblem& problem : problems)
    for (const CudaFacts& device : {roomy, tight, busy})
      for (const CudaLaunch& launch : launches(problem, device))
        if (std::find(kernels.begin(), kernels.end(), launch.kernel) == kernels.end())
          kernels.push_back(launch.kernel);
  return kernels;
}

}  // namespace ridgeline
