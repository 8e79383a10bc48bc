// The list of pointwise ops, one row each: their names, types, builders (tensor.h), costs,
// precisions and the texts of kernels all come from here. A new op is one row here, and its maths
// in four other places (docs/add-an-op.md).
#pragma once

#include <string_view>

namespace ridgeline {

// The fields of a row. Bodies are C statements that end in a return; x and y are the operands.
struct PointwiseOp {
  double flops = 1;                  // of one element
  int weight = 1;                    // cost of one element in additions, for fusion decisions
  bool in_fp32 = false;              // under autocast: not in its operand's dtype
  std::string_view function = {};    // in the texts of kernels; empty: the op's name
  std::string_view expression = {};  // in generated kernels, {0} the operand; empty: a call
  std::string_view body = {};        // of the function, where all languages write it alike;
  std::string_view cuda = {};        // else for GPUs, and for CPUs, or neither where it is
  std::string_view host = {};        // written by hand: elements.cuh, codegen/host_preamble.cc
};

}  // namespace ridgeline

// Ops on one floating-point tensor.
#define RIDGELINE_UNARY_OPS(ROW)                                                                 \
  ROW(negate, .expression = "-{0}")                                                              \
  ROW(exp, .weight = 4, .in_fp32 = true, .function = "exponential", .cuda = "return expf(x);")   \
  ROW(log, .weight = 4, .in_fp32 = true, .function = "logarithm", .cuda = "return logf(x);")     \
  ROW(sqrt, .weight = 2, .function = "square_root", .cuda = "return sqrtf(x);",                  \
      .host = "return __builtin_sqrtf(x);")                                                      \
  ROW(rsqrt, .weight = 2, .in_fp32 = true, .function = "inverse_root",                           \
      .cuda = "return rsqrtf(x);", .host = "return 1.0f / __builtin_sqrtf(x);")                  \
  ROW(sin, .weight = 6, .function = "sine", .cuda = "return sinf(x);",                           \
      .host = "return __builtin_sinf(x);")                                                       \
  ROW(cos, .weight = 6, .function = "cosine", .cuda = "return cosf(x);",                         \
      .host = "return __builtin_cosf(x);")                                                       \
  ROW(tanh, .weight = 5, .function = "hyperbolic_tangent", .cuda = "return tanhf(x);")           \
  ROW(sigmoid, .flops = 3, .weight = 5, .body = "return 1.0f / (1.0f + exponential(-x));")       \
  /* x sigmoid(x). Where the sigmoid is 0, x may be -infinity: the product is 0 all the same. */ \
  ROW(silu, .flops = 4, .weight = 5,                                                             \
      .body = "const float s = sigmoid(x); return s == 0.0f ? 0.0f : x * s;")                    \
  /* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2; 0 of -infinity, as above. */             \
  ROW(gelu_tanh, .flops = 8, .weight = 8,                                                        \
      .body =                                                                                    \
          "const float inner = x * (0.797884561f + 0.0356774081f * x * x);"                      \
          "const float t = 1.0f + hyperbolic_tangent(inner);"                                    \
          "return t == 0.0f ? 0.0f : 0.5f * x * t;")

// Ops on two floating-point tensors of one dtype, which broadcast.
#define RIDGELINE_BINARY_OPS(ROW)                               \
  ROW(add, .expression = "{0} + {1}")                           \
  ROW(subtract, .expression = "{0} - {1}")                      \
  ROW(multiply, .expression = "{0} * {1}")                      \
  ROW(divide, .weight = 2, .expression = "{0} / {1}")           \
  ROW(maximum, .function = "larger") /* NaN if either is */     \
  /* The gradient of x, given x and the gradient of silu(x). */ \
  ROW(silu_gradient, .flops = 8, .weight = 7,                   \
      .body = "const float s = sigmoid(x); return y * (silu(x) * (1.0f - s) + s);")

// Comparisons of two tensors of one dtype, which broadcast; the result is boolean.
#define RIDGELINE_COMPARISONS(ROW)            \
  ROW(less, .expression = "{0} < {1}")        \
  ROW(less_equal, .expression = "{0} <= {1}") \
  ROW(equal, .expression = "{0} == {1}")

// Ops with other types: a cast to the dtype of Attributes::target; a choice by a condition between
// two tensors.
#define RIDGELINE_CAST(ROW) ROW(cast, .flops = 0, .function = "same", .expression = "{0}")
#define RIDGELINE_WHERE(ROW) \
  ROW(where, .flops = 0, .function = "choose", .expression = "{0} ? {1} : {2}")

#define RIDGELINE_POINTWISE_OPS(ROW) \
  RIDGELINE_UNARY_OPS(ROW)           \
  RIDGELINE_BINARY_OPS(ROW) RIDGELINE_COMPARISONS(ROW) RIDGELINE_CAST(ROW) RIDGELINE_WHERE(ROW)
