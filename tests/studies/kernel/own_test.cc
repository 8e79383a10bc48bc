#include "studies/kernel/own_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "jit/cuda_libraries.h"
#include "measure/test_support.h"

namespace ridgeline::kernel_study_test {
namespace {

const std::map<std::string, int64_t, std::less<>> kNames = {{"seq_len", 100}, {"head_dim", 64}};

TEST(Expression, KnowsPrecedenceAndNames) {
  EXPECT_EQ(evaluate("(seq_len + 63) / 64", kNames), 2);
  EXPECT_EQ(evaluate("2 * 64 * head_dim * 4", kNames), 32768);
  EXPECT_EQ(evaluate(" 10 - 4 - 3 ", kNames), 3) << "from left to right";
  EXPECT_EQ(evaluate("7 / 2 * 2", kNames), 6) << "whole numbers";
  EXPECT_EQ(evaluate("1+2*3-(4-5)", kNames), 8);
}

// Random trees, written with all parentheses or only those that are needed, against their value.
struct Tree {
  std::string text;
  int64_t value;
  int strength;  // of its operator: 1 sum, 2 product, 3 leaf
};
Tree random_tree(std::mt19937& random, int depth) {
  if (depth == 0 || random() % 4 == 0) {
    if (random() % 3 == 0) return {"head_dim", 64, 3};
    const int64_t number = random() % 50;
    return {std::to_string(number), number, 3};
  }
  const Tree left = random_tree(random, depth - 1);
  Tree right = random_tree(random, depth - 1);
  const auto inside = [](const Tree& tree, int needed) {
    return tree.strength < needed ? "(" + tree.text + ")" : tree.text;
  };
  switch (random() % 4) {
    case 0:
      return {inside(left, 1) + " + " + inside(right, 2), left.value + right.value, 1};
    case 1:
      return {inside(left, 1) + "-" + inside(right, 2), left.value - right.value, 1};
    case 2:
      return {inside(left, 2) + "*" + inside(right, 3), left.value * right.value, 2};
    default:
      if (right.value == 0 || right.value == -1) right = {"3", 3, 3};
      return {inside(left, 2) + " /" + inside(right, 3), left.value / right.value, 2};
  }
}

TEST(Expression, AgreesWithRandomTrees) {
  std::mt19937 random(42);
  for (int i = 0; i < 2000; ++i) {
    const Tree tree = random_tree(random, 4);
    EXPECT_EQ(evaluate(tree.text, kNames), tree.value) << tree.text;
  }
}

TEST(Expression, WhatCannotBeComputedIsAUsageError) {
  for (const char* text :
       {"", "1 +", "(1", "1)", "1 2", "* 3", "1 / 0", "1 / (3 - 4)", "2 ** 3",
        "9223372036854775807 + 1", "99999999999999999999", "9000000000 * 9000000000"}) {
    EXPECT_ERROR(evaluate(text, kNames), ErrorKind::usage, "");
  }
  EXPECT_ERROR(evaluate("blocks", kNames), ErrorKind::usage, "head_dim, seq_len");
  EXPECT_ERROR(evaluate(std::string(100'000, '('), kNames), ErrorKind::usage, "parentheses");
  std::mt19937 random(7);
  const std::string letters = "0123456789+-*/() ahed_m";
  for (int i = 0; i < 5000; ++i) {  // a value or a usage error, never anything else
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += letters[random() % letters.size()];
    try {
      evaluate(text, kNames);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage) << text;
    }
  }
}

const AttentionConfig kProblem{
    .batch_size = 2, .heads = 3, .seq_len = 100, .head_dim = 64, .dtype = DType::bf16};

TEST(OwnLaunch, IsReadFromComments) {
  const OwnLaunch launch = own_launch(
      "// ridgeline: grid = (seq_len + 63) / 64, heads, batch\n"
      "int x;  // ridgeline: block = 5 is part of a line of code, and left alone\n"
      "  //ridgeline: block=32, 4\r\n"
      "// ridgeline: shared = 64 * head_dim * element_bytes",
      kProblem);
  EXPECT_EQ(launch, (OwnLaunch{.grid = {2, 3, 2}, .block = {32, 4, 1}, .shared_bytes = 8192}));
  EXPECT_EQ(own_launch("// ridgeline: grid = 1\n// ridgeline: block = 1", kProblem).shared_bytes,
            0);
}

TEST(OwnLaunch, NamesTheLineOfWhatIsWrong) {
  const auto with = [](const std::string& more) { return "\n// ridgeline: grid = 1\n" + more; };
  const std::string block = "// ridgeline: block = 64\n";
  struct Case {
    std::string source;
    const char* message;
  };
  for (const Case& bad : {
           Case{block, "does not say its grid"},
           Case{with(""), "does not say its block"},
           Case{with("// ridgeline: block = 2000"), "line 3: block: 2000 = 2000 is not within"},
           Case{with("// ridgeline: block = 64, 64"), "4096 threads is more than 1024"},
           Case{with("// ridgeline: block = 0"), "line 3"},
           Case{with(block + block), "line 4: block is given a second time"},
           Case{with(block + "// ridgeline: warps = 4"), "line 4: 'warps' is not something"},
           Case{with(block + "// ridgeline: shared 4"), "line 4: ' shared 4' has no '='"},
           Case{with(block + "// ridgeline: shared = 1, 2"), "line 4: shared has more than 1"},
           Case{with(block + "// ridgeline: shared = width"), "line 4: 'width' is not known"},
       }) {
    EXPECT_ERROR(own_launch(bad.source, kProblem), ErrorKind::usage, bad.message);
  }
}

std::string example() {
  return read_text(RIDGELINE_SOURCE_DIR "/examples/own_attention.cu");
}

TEST(OwnKernelSource, TheExampleCompilesForEveryDtypeAndGpu) {
  if (!cuda_library("nvrtc")) GTEST_SKIP() << "no NVRTC";
  for (const char* arch : {"sm_80", "sm_90a"})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const int64_t head_dim : {64, 128}) {
        AttentionConfig config = kProblem;
        config.dtype = dtype;
        config.head_dim = head_dim;
        const OwnKernelCode code =
            compile_own_kernel(example(), "own_attention.cu", "own_attention", config, arch);
        EXPECT_GT(code.registers, 0);
        EXPECT_EQ(code.spill_bytes, 0) << arch << " " << info(dtype).name << " " << head_dim;
        EXPECT_FALSE(code.cubin.empty());
      }
  EXPECT_EQ(own_launch(example(), kProblem),
            (OwnLaunch{.grid = {2, 3, 2}, .block = {256, 1, 1}, .shared_bytes = 16384}));
}

TEST(OwnKernelSource, AMissingEntryListsThoseThatAreThere) {
  if (!cuda_library("nvrtc")) GTEST_SKIP() << "no NVRTC";
  EXPECT_ERROR(compile_own_kernel(example(), "mine.cu", "attention", kProblem, "sm_80"),
               ErrorKind::usage, "no kernel 'attention'; it has own_attention");
  EXPECT_ERROR(compile_own_kernel("int x;", "mine.cu", "attention", kProblem, "sm_80"),
               ErrorKind::usage, "has no kernel");
}

TEST(OwnKernelSource, ToolkitHeadersAreFoundWhereThereAreAny) {
  if (!cuda_library("nvrtc")) GTEST_SKIP() << "no NVRTC";
  const auto folder = std::filesystem::canonical(cuda_library("nvrtc").path).parent_path();
  if (!std::filesystem::exists(folder / "../include/cuda_fp16.h")) GTEST_SKIP() << "no toolkit";
  const OwnKernelCode code = compile_own_kernel(
      "#include <cuda_fp16.h>\nextern \"C\" __global__ void k(__half* x) { x[0] = __hadd(x[0], "
      "x[1]); }",
      "mine.cu", "k", kProblem, "sm_80");
  EXPECT_GT(code.registers, 0);
}

}  // namespace
}  // namespace ridgeline::kernel_study_test
