#include "plan/op_text.h"

#include <gtest/gtest.h>

#include "codegen/emit.h"
#include "kernels/cuda/embedded.h"

namespace ridgeline {
namespace {

bool defines(std::string_view text, std::string_view function) {
  return text.find(" float " + std::string(function) + "(float") != text.npos;
}

// One that is missing would fail in a user's first run, when kernels are compiled.
TEST(OpText, EveryFunctionThatGeneratedKernelsCallIsWrittenForGpusAndCpus) {
  std::string on_gpus;
  for (const EmbeddedText& each : cuda_texts())
    if (each.name == "functions.cuh" || each.name == "elements.cuh") on_gpus += each.text;
  for (const PointwiseRow& row : kPointwiseOps) {
    if (!row.says.expression.empty()) continue;
    EXPECT_TRUE(defines(host_preamble(), row.function())) << row.name << " for CPUs";
    EXPECT_TRUE(defines(on_gpus, row.function())) << row.name << " for GPUs";
  }
}

TEST(OpText, TextsComeFromTheListOfPointwiseOps) {
  EXPECT_EQ(fused_op(Op::add).text, "{0} + {1}");
  EXPECT_EQ(fused_op(Op::exp).text, "exponential({0})");
  EXPECT_EQ(fused_op(Op::silu_gradient).text, "silu_gradient({0}, {1})");
  EXPECT_EQ(fused_op(Op::softmax).text, "");
  EXPECT_EQ(pointwise_row(Op::iota), nullptr);
  EXPECT_EQ(pointwise_row(Op::softmax), nullptr);
  for (const PointwiseRow& row : kPointwiseOps) EXPECT_EQ(pointwise_row(row.op), &row) << row.name;
}

}  // namespace
}  // namespace ridgeline
