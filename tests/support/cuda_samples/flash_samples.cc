// Attention kernels that stand for all that the planners can ask for: every width and dtype, with
// masks in turns, on GPUs with much and with little shared memory, and with few multiprocessors; on
// Hopper also every width with every mask.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "graph/score_function.h"
#include "graph/tensor.h"
#include "kernels/cuda/kernels.h"
#include "passes/score_region.h"

namespace ridgeline {
namespace {

struct SampleFunction {
  std::shared_ptr<const ScoreFunction> function = {};
  std::vector<TensorView> operands = {};
  uint32_t diagonals = 0;  // operands whose gradients are added up along diagonals
};

constexpr int64_t kBatches = 2, kHeads = 4, kLength = 1024;

struct SampleProblem {
  DType dtype;
  int64_t width;
  AttentionMask mask;
  int64_t length = kLength;
  SampleFunction score = {};
};

// The planners look at addresses, but only for alignment.
TensorView flash_tensor(DType dtype, const Shape& shape) {
  return {reinterpret_cast<void*>(uintptr_t{0x1000}), dtype, shape, contiguous_strides(shape)};
}

// What f is made of: the score, operands by their number, and where it stands.
struct Inputs {
  Tensor score;
  std::vector<Tensor> operands;
  Tensor query, key;
};

template <class Formula>
SampleFunction sample_function(std::vector<TensorView> operands, Formula formula,
                               uint32_t diagonals = 0) {
  Graph graph;
  Inputs inputs = {
      .score = input(graph, "score", {DType::f32, {}}), .operands = {}, .query = {}, .key = {}};
  for (size_t i = 0; i < operands.size(); ++i) {
    const DType dtype = is_floating(operands[i].dtype) ? DType::f32 : operands[i].dtype;
    inputs.operands.push_back(input(graph, "operand" + std::to_string(i), {dtype, {}}));
  }
  inputs.query = input(graph, "query", {DType::i32, {}});
  inputs.key = input(graph, "key", {DType::i32, {}});
  graph.mark_output("result", formula(inputs).value());
  return {make_score_function(graph, {2, 3}), std::move(operands), diagonals};
}

// Functions that people ask for, with operands of every kind.
std::vector<SampleFunction> sample_functions() {
  const auto table = [](DType dtype, int64_t queries, int64_t keys) {
    return flash_tensor(dtype, {1, kHeads, queries, keys});
  };
  const TensorView of_queries = table(DType::bf16, kLength, 1),
                   of_keys = table(DType::f32, 1, kLength), of_heads = table(DType::f32, 1, 1),
                   of_all = table(DType::bf16, kLength, kLength),
                   documents = flash_tensor(DType::i32, {kBatches, 1, kLength, 1}),
                   documents_of_keys = flash_tensor(DType::i32, {kBatches, 1, 1, kLength});
  const auto distance = [](const Inputs& in) {
    return cast(in.key, DType::f32) - cast(in.query, DType::f32);
  };
  const auto hidden = [](const Tensor& score) {
    return scalar(score, -std::numeric_limits<double>::infinity());
  };
  return {
      // Whose gradient reads an operand.
      sample_function({of_queries}, [](const Inputs& in) { return in.score * in.operands[0]; }),
      sample_function({}, [](const Inputs& in) { return tanh(in.score * 0.125 / 20) * 20; }),
      sample_function(
          {of_heads},
          [&](const Inputs& in) { return in.score * 0.125 + in.operands[0] * distance(in) / 16; }),
      sample_function({of_all}, [](const Inputs& in) { return in.score * 0.125 + in.operands[0]; }),
      sample_function(
          {of_queries, of_keys},
          [](const Inputs& in) { return in.score * 0.125 + in.operands[0] * in.operands[1]; }),
      sample_function({documents, documents_of_keys},
                      [&](const Inputs& in) {
                        return where(equal(in.operands[0], in.operands[1]), in.score * 0.125,
                                     hidden(in.score));
                      }),
      sample_function({},
                      [&](const Inputs& in) {
                        const Tensor recent = less(distance(in) * -1, scalar(in.score, 512)),
                                     sink = less(in.key, scalar(in.key, 4));
                        return where(where(recent, scalar(recent, 1), sink), in.score * 0.125,
                                     hidden(in.score));
                      }),
      // A relative bias, and one of each head beside it.
      sample_function(
          {of_all}, [](const Inputs& in) { return in.score * 0.125 + in.operands[0]; }, 1),
      sample_function(
          {of_all, of_heads},
          [](const Inputs& in) { return in.score * 0.125 + in.operands[0] + in.operands[1] * 2; },
          1),
  };
}

// Every candidate of every choice is a sample; with a function, whose registers are anybody's
// guess, only the first.
std::vector<CudaLaunch> launches(const SampleProblem& problem, const CudaFacts& device) {
  std::vector<CudaLaunch> all;
  const bool plain = problem.score.function == nullptr;
  const CudaChooser choose = [&](const std::string&, size_t count, const auto& candidate) {
    for (size_t i = 0; i < (plain ? count : 1); ++i)
      for (const CudaLaunch& launch : candidate(i)) all.push_back(launch);
    return size_t{0};
  };
  const TensorView x =
      flash_tensor(problem.dtype, {kBatches, kHeads, problem.length, problem.width});
  const TensorView sums = flash_tensor(DType::f32, {kBatches, kHeads, problem.length});
  const std::vector<TensorView>& operands = problem.score.operands;
  uint32_t gradients = 0;
  for (size_t i = 0; i < operands.size(); ++i)
    if (is_floating(operands[i].dtype)) gradients |= 1u << i;
  const auto plan = [&](Op op, BackwardAlgorithm backward, const std::vector<TensorView>& inputs,
                        const std::vector<TensorView>& outputs) {
    const Node node{
        .op = op,
        .inputs = {},
        .attributes = {.detail = AttentionSpec{.mask = problem.mask,
                                               .backward = backward,
                                               .function = problem.score.function,
                                               .operand_gradients = gradients,
                                               .diagonal_gradients = problem.score.diagonals},
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
  const auto with_operands = [&](std::vector<TensorView> tensors) {
    tensors.insert(tensors.end(), operands.begin(), operands.end());
    return tensors;
  };
  plan(Op::attention, {}, with_operands({x, x, x}), {x, sums});
  for (auto backward : {BackwardAlgorithm::single_pass, BackwardAlgorithm::two_pass})
    plan(Op::attention_gradient, backward, with_operands({x, x, x, x, sums, x}),
         with_operands({x, x, x}));
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
  const std::vector<SampleFunction> functions = sample_functions();
  for (DType dtype : {DType::bf16, DType::f32})
    problems.push_back({dtype, 64, masks[1], kLength, functions[0]});
  if (compute_capability == 90) {
    constexpr int64_t kWidths[] = {192, 128, 128, 96, 64};
    for (size_t i = 0; i < functions.size(); ++i)
      problems.push_back({DType::bf16, kWidths[i % 5], masks[i % 3], kLength, functions[i]});
    // Documents, in the kernels that leave out what they hide.
    problems.push_back({DType::bf16, 64, masks[0], kLength, functions[5]});
    problems.push_back({DType::bf16, 128, masks[0], kLength, functions[5]});
    problems.push_back({DType::bf16, 128, masks[1], kLength, functions[5]});
    // Relative biases: every width at which registers are shared out differently.
    for (int64_t width : {64, 128})
      problems.push_back({DType::bf16, width, masks[0], kLength, functions[7]});
    problems.push_back({DType::f16, 96, masks[1], kLength, functions[8]});
  }

  std::vector<CudaKernel> kernels;
  for (const SampleProblem& problem : problems)
    for (const CudaFacts& device : {roomy, tight, busy})
      for (const CudaLaunch& launch : launches(problem, device))
        if (std::find(kernels.begin(), kernels.end(), launch.kernel) == kernels.end())
          kernels.push_back(launch.kernel);
  return kernels;
}

}  // namespace ridgeline
