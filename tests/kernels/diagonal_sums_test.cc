// Which kernel adds up the gradient of an operand along diagonals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "graph/score_function.h"
#include "graph/tensor.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/params.h"
#include "passes/score_region.h"

namespace ridgeline::diagonal_sums_test {
namespace {

using Formula = Tensor (*)(const Tensor& score, const Tensor& operand);

Tensor bias(const Tensor& score, const Tensor& operand) {
  return score * 0.125 + operand * 3;
}
Tensor factor(const Tensor& score, const Tensor& operand) {
  return score * operand;
}
Tensor capped(const Tensor& score, const Tensor& operand) {
  return tanh(score) + operand;
}

struct Problem {
  Formula formula = bias;
  int64_t width = 64;
  DType dtype = DType::bf16;
  int compute_capability = 90;
  BackwardAlgorithm backward = BackwardAlgorithm::single_pass;
  bool along_diagonals = true;
};

std::vector<CudaLaunch> plan(const Problem& problem) {
  constexpr int64_t kBatches = 2, kHeads = 3, kLength = 1024;
  Graph graph;
  const Tensor score = input(graph, "score", {DType::f32, {}}),
               operand = input(graph, "operand0", {DType::f32, {}});
  graph.mark_output("result", problem.formula(score, operand).value());
  const auto tensor = [](DType dtype, const Shape& shape) {
    return TensorView{reinterpret_cast<void*>(uintptr_t{0x1000}), dtype, shape,
                      contiguous_strides(shape)};
  };
  const TensorView x = tensor(problem.dtype, {kBatches, kHeads, kLength, problem.width}),
                   rows = tensor(DType::f32, {kBatches, kHeads, kLength}),
                   table = tensor(DType::f32, {1, kHeads, kLength, kLength});
  CudaFacts device;
  device.compute_capability = problem.compute_capability;
  device.shared_bytes_per_block = 227 << 10;
  device.multiprocessors = 100;
  const Node node{.op = Op::attention_gradient,
                  .inputs = {},
                  .attributes = {.detail = AttentionSpec{.backward = problem.backward,
                                                         .function = make_score_function(graph),
                                                         .operand_gradients = 1,
                                                         .diagonal_gradients =
                                                             problem.along_diagonals ? 1u : 0},
                                 .target = {}},
                  .outputs = {},
                  .name = {}};
  const TensorView sums =
      problem.along_diagonals ? tensor(DType::f32, diagonal_sums(table.shape)) : table;
  const std::vector<TensorView> inputs = {x, x, x, x, rows, x, table}, outputs = {x, x, x, sums};
  return cuda_op(node.op).plan(
      {.node = node,
       .inputs = inputs,
       .outputs = outputs,
       .device = device,
       .scratch = x.data,
       .choose = [](const auto&, size_t, const auto&) { return size_t{0}; }});
}

std::string constant_of(const CudaLaunch& launch, std::string_view name) {
  for (const auto& [key, value] : launch.kernel.constants)
    if (key == name) return value;
  return {};
}

// Launches of kernels with that constant, or with another value of it than 0.
int64_t count_with(const std::vector<CudaLaunch>& launches, std::string_view name) {
  return std::ranges::count_if(launches, [&](const CudaLaunch& launch) {
    const std::string value = constant_of(launch, name);
    return !value.empty() && value != "0";
  });
}

void expect_added_up_beside_scores(const Problem& problem, bool beside) {
  const std::vector<CudaLaunch> launches = plan(problem);
  EXPECT_EQ(count_with(launches, "DIAGONAL_GRADIENTS"), beside ? 1 : 0);
  EXPECT_EQ(count_with(launches, "DIAGONALS"), beside ? 0 : 1);
  EXPECT_EQ(count_with(launches, "SUMS"), 1) << "zeros come first";
}

TEST(DiagonalSums, OfABiasAreAddedUpBesideScoresOnHopper) {
  expect_added_up_beside_scores({}, true);
  expect_added_up_beside_scores({.width = 128, .dtype = DType::f16}, true);
}

TEST(DiagonalSums, ComeFromAKernelOfTheirOwnElsewhere) {
  expect_added_up_beside_scores({.formula = factor}, false);
  expect_added_up_beside_scores({.formula = capped}, false);
  expect_added_up_beside_scores({.width = 160}, false);
  expect_added_up_beside_scores({.dtype = DType::f32}, false);
  expect_added_up_beside_scores({.compute_capability = 80}, false);
  expect_added_up_beside_scores({.backward = BackwardAlgorithm::two_pass}, false);
}

TEST(DiagonalSums, TakeSharedMemoryBehindTheRest) {
  const auto main = [](const Problem& problem) {
    for (const CudaLaunch& launch : plan(problem))
      if (launch.kernel.entry == "flash_backward_warpgroups") return launch.shared_bytes;
    return uint32_t{0};
  };
  EXPECT_EQ(main({}), main({.along_diagonals = false}) + 4 * 96 * sizeof(float));
}

TEST(DiagonalSums, AreNotTakenUnlessAskedFor) {
  const std::vector<CudaLaunch> launches = plan({.along_diagonals = false});
  EXPECT_EQ(count_with(launches, "DIAGONAL_GRADIENTS"), 0);
  EXPECT_EQ(count_with(launches, "DIAGONALS"), 0);
  EXPECT_EQ(count_with(launches, "SUMS"), 0);
}

}  // namespace
}  // namespace ridgeline::diagonal_sums_test
