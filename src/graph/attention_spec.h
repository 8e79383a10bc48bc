// The attributes of an attention node: scale, score function, mask and backward algorithm.
#pragma once

#include <cstdint>
#include <memory>

namespace ridgeline {

// Which keys a query may see. With Sq != Sk, query i has key position p = i (top left) or i + Sk -
// Sq (bottom right); window w keeps the keys at positions (p - w, p], 0 keeps all.
struct AttentionMask {
  enum class Alignment : uint8_t { top_left, bottom_right };
  bool causal = false;
  Alignment alignment = Alignment::top_left;
  int64_t window = 0;

  bool operator==(const AttentionMask&) const = default;
};

// Two passes are bitwise reproducible everywhere; one pass only on the CPU.
enum class BackwardAlgorithm : uint8_t {
  two_pass,     // dQ by query tiles, then dK and dV by key tiles: 7 products, independent tiles
  single_pass,  // all three by key tiles: 5 products; key tiles add to dQ in turn on the CPU, by
                // atomics on a GPU
};

struct ScoreFunction;  // graph/score_function.h

// softmax(scale f(q k^T) + mask) v
struct AttentionSpec {
  double scale = 1;
  AttentionMask mask = {};
  BackwardAlgorithm backward = BackwardAlgorithm::single_pass;
  std::shared_ptr<const ScoreFunction> function = {};  // null: the identity
  uint32_t operand_gradients = 0;   // bit i: the gradient node has a result for operand i of f
  uint32_t diagonal_gradients = 0;  // bit i of these: summed along diagonals (diagonal_sums)
  // Keys and values are a cache of slots (append, tensor.h) that already holds the newest rows, as
  // many as there are queries. Query i is at position + i, where the position is an additional
  // input, i32 [1]. It sees the slots that hold positions up to its own, with a window w only the
  // last w. The rest of the mask is ignored; there is no f and no gradient.
  bool cached = false;
};

// The keys that query `query` of `queries` may see: [first, last), which may be empty.
struct KeyRange {
  int64_t first = 0;
  int64_t last = 0;
};
KeyRange visible_keys(const AttentionMask& mask, int64_t query, int64_t queries, int64_t keys);
// Their number over all queries, in constant time.
double visible_pairs(const AttentionMask& mask, int64_t queries, int64_t keys);

}  // namespace ridgeline
