// The operations of the graph, at the granularity of PyTorch eager: what it runs as one kernel is
// one op.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace ridgeline {

enum class Op : uint8_t {
  // leaves
  input,
  constant,
  iota,
  // pointwise, with broadcasting
  negate,
  exp,
  log,
  sqrt,
  rsqrt,
  sin,
  cos,
  tanh,
  sigmoid,
  silu,
  cast,
  add,
  subtract,
  multiply,
  divide,
  maximum,
  less,
  less_equal,
  equal,
  where,
  silu_gradient,
  // along the last axis
  softmax,
  softmax_gradient,
  log_softmax,
  log_softmax_gradient,
  // over given axes, which stay with size 1
  sum,
  mean,
  max,
  matmul,
  // softmax(scale f(q k^T) + mask) v as one node, with the log-sum-exp of each row; and its
  // gradient
  attention,
  attention_gradient,
  // rows of a table, or one element of each row, by i32 index; each beside its gradient
  gather,
  scatter_add,
  pick,
  place,
  // over many tensors at once, as PyTorch's foreach
  sum_of_squares,
  adamw_update,
  // the same elements seen otherwise; a reshape that strides cannot express copies
  reshape,
  permute,
  expand,
  slice,
  // results that are put together from parts: tensors side by side, zeros around
  concat,
  pad,
};

inline constexpr size_t kOpCount = static_cast<size_t>(Op::pad) + 1;

// One entry for every op. A missing or doubled row does not compile.
template <class T>
class OpTable {
 public:
  consteval OpTable(std::initializer_list<std::pair<Op, T>> rows) {
    std::array<bool, kOpCount> seen{};
    for (const auto& [op, entry] : rows) {
      const auto index = static_cast<size_t>(op);
      if (seen[index]) throw "two rows for one op";
      seen[index] = true;
      entries_[index] = entry;
    }
    for (bool present : seen)
      if (!present) throw "an op has no row in this table";
  }
  constexpr const T& operator[](Op op) const { return entries_[static_cast<size_t>(op)]; }

 private:
  std::array<T, kOpCount> entries_{};
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
  view,
  assembly,
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

// Whether results overwrite inputs (Node's updated_input in graph.h says which).
inline bool is_update(Op op) {
  return op == Op::adamw_update;
}

}  // namespace ridgeline
