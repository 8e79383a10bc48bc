// How the interpreter sees tf32: stored like fp32, rounded where products read it.
#include <gtest/gtest.h>

#include "base/float16.h"
#include "graph/tensor.h"
#include "support/interpreter/interpreter.h"

namespace ridgeline::interpreter_tf32_test {
namespace {

constexpr double kFine = 1 + 0x1p-20;  // fp32 holds it, ten bits do not

TEST(InterpreterTf32, OperandsOfProductsAreRoundedAndNothingElse) {
  Graph graph;
  const Tensor a = input(graph, "a", {DType::tf32, {1, 1}});
  const Tensor b = input(graph, "b", {DType::tf32, {1, 1}});
  const Tensor product = matmul(a, b), sum = a + b;
  const InterpreterInputs inputs = {{"a", {kFine}}, {"b", {2.0}}};
  const auto rounded = interpret(graph, inputs, {.round_to_dtype = true});
  EXPECT_EQ(rounded[graph.index(product.value())][0], 2);
  EXPECT_EQ(rounded[graph.index(sum.value())][0], 2 + kFine);
  const auto exact = interpret(graph, inputs);
  EXPECT_EQ(exact[graph.index(product.value())][0], 2 * kFine);
}

TEST(InterpreterTf32, StorageHasTheBitsOfFp32) {
  EXPECT_EQ(round_to(DType::tf32, kFine), kFine);
  EXPECT_EQ(info(DType::tf32).size, 4);
  EXPECT_EQ(parse_float_dtype("tf32"), DType::tf32);
}

}  // namespace
}  // namespace ridgeline::interpreter_tf32_test
