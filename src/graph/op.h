// The operations of the graph, at the granularity of PyTorch eager: one of its kernels is one op.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include "graph/pointwise_ops.h"

namespace ridgeline {

enum class Op : uint8_t {
  // leaves
  input,
  constant,
  iota,
// pointwise, with broadcasting (pointwise_ops.h)
#define RIDGELINE_NAME(name, ...) name,
  RIDGELINE_POINTWISE_OPS(RIDGELINE_NAME)
#undef RIDGELINE_NAME
  // along the last axis
  softmax,
  softmax_gradient,
  log_softmax,
  log_softmax_gradient,
  // over given axes, which are kept with size 1
  sum,
  mean,
  max,
  matmul,
  // softmax(scale f(q k^T) + mask) v as one node, with the log-sum-exp of each row; and its
  // gradient
  attention,
  attention_gradient,
  // rows of a table, or one element of each row, by i32 index; each followed by its gradient
  gather,
  scatter_add,
  pick,
  place,
  // the index of the largest element of each row
  argmax,
  // over many tensors at once, like PyTorch's foreach ops
  sum_of_squares,
  adamw_update,
  // dynamic loss scaling, like PyTorch's GradScaler
  loss_scale_update,
  // a cache of rows such as keys and values: rows stored in place, the position after them, and
  // which position each slot holds
  append,
  advance,
  ring_positions,
  // views of the same elements; a reshape that strides cannot express copies
  reshape,
  permute,
  expand,
  slice,
  // results assembled from parts: concatenated tensors, zero padding
  concat,
  pad,
  // collectives: the sum over ranks, this rank's shard of the sum, the shards of all ranks
  all_reduce,
  reduce_scatter,
  all_gather,
};

inline constexpr size_t kOpCount = static_cast<size_t>(Op::all_gather) + 1;

// The operands of a pointwise op, and the type of its result.
enum class PointwiseKind : uint8_t { unary, binary, comparison, cast, where };

struct PointwiseRow {
  Op op = Op::cast;
  std::string_view name;
  PointwiseKind kind = PointwiseKind::unary;
  PointwiseOp says;

  constexpr int inputs() const {
    if (kind == PointwiseKind::where) return 3;
    return kind == PointwiseKind::unary || kind == PointwiseKind::cast ? 1 : 2;
  }
  // Its function in kernels.
  constexpr std::string_view function() const {
    return says.function.empty() ? name : says.function;
  }
};

// The list of pointwise_ops.h, in the order of the ops.
inline constexpr PointwiseRow kPointwiseOps[] = {
#define RIDGELINE_ROW(kind, name, ...) {Op::name, #name, PointwiseKind::kind, {__VA_ARGS__}},
#define RIDGELINE_ROW_OF_UNARY(...) RIDGELINE_ROW(unary, __VA_ARGS__)
#define RIDGELINE_ROW_OF_BINARY(...) RIDGELINE_ROW(binary, __VA_ARGS__)
#define RIDGELINE_ROW_OF_COMPARISON(...) RIDGELINE_ROW(comparison, __VA_ARGS__)
#define RIDGELINE_ROW_OF_CAST(...) RIDGELINE_ROW(cast, __VA_ARGS__)
#define RIDGELINE_ROW_OF_WHERE(...) RIDGELINE_ROW(where, __VA_ARGS__)
    RIDGELINE_UNARY_OPS(RIDGELINE_ROW_OF_UNARY)         //
    RIDGELINE_BINARY_OPS(RIDGELINE_ROW_OF_BINARY)       //
    RIDGELINE_COMPARISONS(RIDGELINE_ROW_OF_COMPARISON)  //
    RIDGELINE_CAST(RIDGELINE_ROW_OF_CAST)               //
    RIDGELINE_WHERE(RIDGELINE_ROW_OF_WHERE)
#undef RIDGELINE_ROW_OF_UNARY
#undef RIDGELINE_ROW_OF_BINARY
#undef RIDGELINE_ROW_OF_COMPARISON
#undef RIDGELINE_ROW_OF_CAST
#undef RIDGELINE_ROW_OF_WHERE
#undef RIDGELINE_ROW
};

// Null for ops that are not pointwise.
constexpr const PointwiseRow* pointwise_row(Op op) {
  constexpr auto kFirst = static_cast<size_t>(kPointwiseOps[0].op);
  const size_t place = static_cast<size_t>(op) - kFirst;  // wraps around for earlier ops
  return place < std::size(kPointwiseOps) ? &kPointwiseOps[place] : nullptr;
}

// One entry for every op. A missing or doubled row does not compile.
template <class T>
class OpTable {
 public:
  using Rows = std::initializer_list<std::pair<Op, T>>;

  consteval OpTable(Rows rows) { add(rows); }
  // Pointwise ops get of_pointwise(PointwiseRow), unless `rows` has a row for them.
  template <class OfPointwise>
  consteval OpTable(OfPointwise of_pointwise, Rows rows) {
    for (const PointwiseRow& row : kPointwiseOps)
      if (!has_row(rows, row.op)) fill(row.op, of_pointwise(row));
    add(rows);
  }
  constexpr const T& operator[](Op op) const { return entries_[static_cast<size_t>(op)]; }

 private:
  static consteval bool has_row(Rows rows, Op op) {
    for (const auto& [each, entry] : rows)
      if (each == op) return true;
    return false;
  }
  consteval void fill(Op op, const T& entry) {
    const auto index = static_cast<size_t>(op);
    if (seen_[index]) throw "two rows for one op";
    seen_[index] = true;
    entries_[index] = entry;
  }
  consteval void add(Rows rows) {
    for (const auto& [op, entry] : rows) fill(op, entry);
    for (bool present : seen_)
      if (!present) throw "an op has no row in this table";
  }

  std::array<T, kOpCount> entries_{};
  std::array<bool, kOpCount> seen_{};
};

enum class OpClass : uint8_t {
  leaf,
  pointwise,
  row,
  reduction,
  matmul,
  attention,
  indexed,
  multi_tensor,
  cache,
  view,
  assembly,
  collective,
};

inline constexpr int kAnyNumber = -1;  // of inputs: at least one

struct OpInfo {
  std::string_view name;
  OpClass kind = OpClass::leaf;
  int inputs = 0;
};

const OpInfo& info(Op op);

inline bool is_view(Op op) {
  return info(op).kind == OpClass::view;
}

inline bool is_collective(Op op) {
  return info(op).kind == OpClass::collective;
}

// Whether results overwrite inputs (Node's updated_input in graph.h says which).
inline bool is_update(Op op) {
  return op == Op::adamw_update || op == Op::loss_scale_update || op == Op::append ||
         op == Op::advance;
}

}  // namespace ridgeline
