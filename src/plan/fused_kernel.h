// What one generated kernel computes, as data: operands over a domain of rows and columns, a
// straight-line program on their elements, and the results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "graph/graph.h"

namespace ridgeline {

enum class FusedKind : uint8_t {
  row,     // pointwise work, and folds along the last axis of the domain
  column,  // folds over all axes but the last, as partial folds that are then combined
};

// A tensor as the kernel sees it: strides along the axes of the domain, 0 where it broadcasts.
struct FusedOperand {
  Value storage;  // the owner of the memory; none for positions
  DType dtype = DType::f32;
  int64_t offset = 0;        // in elements
  Strides strides;           // in elements
  bool is_position = false;  // no memory: the element is its own offset, as in iota
};

struct FusedStep {
  enum class Kind : uint8_t { load, constant, compute, fold };
  Kind kind = Kind::compute;
  Op op = Op::input;                  // of a compute or fold
  DType dtype = DType::f32;           // that the result is rounded to
  std::vector<uint32_t> inputs = {};  // earlier steps
  uint32_t operand = 0;               // of a load
  double constant = 0;
  Value value;  // of the graph, computed or read by this step
};

struct FusedResult {
  uint32_t step = 0;
  FusedOperand to;  // over the domain; a fold of columns: over its last axis alone
};

// A matrix as a product reads it: contiguous rows or contiguous columns.
struct FusedMatrix {
  Value storage;
  int64_t offset = 0;   // in elements
  int64_t stride = 0;   // between contiguous rows or columns, in elements
  bool is_deep = true;  // contiguous along the depth of the product
};

// A product that the kernel computes itself. Its result has no memory, unless the kernel writes it:
// loads of it return its sums, rounded as they would be in memory.
struct FusedProduct {
  Value result;  // [rows, columns], contiguous
  DType dtype = DType::bf16;
  FusedMatrix left, right;
  int64_t rows = 0, columns = 0, depth = 0;

  int64_t left_offset(int64_t row, int64_t depth_at) const {
    return left.offset +
           (left.is_deep ? row * left.stride + depth_at : depth_at * left.stride + row);
  }
  int64_t right_offset(int64_t depth_at, int64_t column) const {
    return right.offset +
           (right.is_deep ? column * right.stride + depth_at : depth_at * right.stride + column);
  }
};

struct FusedKernel {
  FusedKind kind = FusedKind::row;
  std::string name;  // after its ops: "mean_rsqrt_multiply"
  Shape domain;      // rows, then columns
  std::vector<FusedOperand> inputs;
  std::vector<FusedStep> steps;
  std::vector<FusedResult> results;
  std::optional<FusedProduct> product = {};

  bool is_computed(const FusedOperand& input) const {
    return product && !input.is_position && input.storage == product->result;
  }
  int64_t columns() const { return domain.back(); }
  int64_t rows() const { return element_count(domain) / columns(); }
  bool has_folds() const;
};

// The kernel's loops over as few axes as its operands allow; sizes and strides become arguments.
struct FusedWalk {
  std::vector<int64_t> sizes;  // of the rows' axes, at least one
  int64_t columns = 1;
  struct Steps {
    std::vector<int64_t> rows;  // one per axis
    int64_t column = 0;
  };
  std::vector<Steps> inputs, results;

  int64_t rows() const;
};
// Kernels with folds keep their columns; others may merge them with rows.
FusedWalk make_walk(const FusedKernel& kernel);

// Two interleaved operands, such as the even and odd elements of a rotary embedding: one access
// serves both. By operand: the index of the other one, or kAlone.
inline constexpr int kAlone = -1;
struct Interleaving {
  std::vector<int> inputs, results;
  // Whether an operand of a pair is the one whose elements come first.
  static bool is_first(const FusedOperand& of) { return of.offset % 2 == 0; }
};
Interleaving find_interleaving(const FusedKernel& kernel, const FusedWalk& walk);

// A column fold splits the rows into this many parts for any number of threads, so that results are
// reproducible between runs and machines.
int64_t column_parts(const FusedKernel& kernel);
// The scratch of a kernel: one fp32 row per part and fold.
Bytes fused_scratch(const FusedKernel& kernel);

}  // namespace ridgeline
