// What an attention node computes besides its inputs: scale, function of scores, mask, and how its
// gradient is taken.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace ridgeline {

// Which keys a query may see. With Sq != Sk, query i stands at key position i (top left) or at
// i + Sk - Sq (bottom right); window w keeps the keys at positions (p - w, p], 0 keeps all.
struct AttentionMask {
  enum class Alignment : uint8_t { top_left, bottom_right };
  bool causal = false;
  Alignment alignment = Alignment::top_left;
  int64_t window = 0;

  bool operator==(const AttentionMask&) const = default;
};

// Two passes give the same bits from run to run everywhere; one pass does on the CPU.
enum class BackwardAlgorithm : uint8_t {
  two_pass,     // dQ by query tiles, then dK and dV by key tiles: 7 products, no tile waits for
                // another
  single_pass,  // all three by key tiles: 5 products; key tiles add to dQ in turn on the CPU, by
                // atomics on a GPU
};

struct ScoreFunction;  // graph/score_function.h

// softmax(scale f(q k^T) + mask) v
struct AttentionSpec {
  double scale = 1;
  AttentionMask mask = {};
  BackwardAlgorithm backward = BackwardAlgorithm::single_pass;
  std::shared_ptr<const ScoreFunction> function = {};  // none: the scores as they are
  uint32_t operand_gradients = 0;   // bit i: the gradient node has a result for operand i of f
  uint32_t diagonal_gradients = 0;  // bit i of these: in sums along diagonals (diagonal_sums)
  // Keys and values are a cache of slots (append, tensor.h) that already holds the newest rows, as
  // many as there are queries. Query i stands at position + i, where the position is a further
  // input, i32 [1], and sees the slots that hold a position of at most its own, with a window w
  // only the last w. The rest of the mask is not read; there is no f and no gradient.
  bool cached = false;
};

// The keys that query `query` of `queries` may see: [first, last), which may be empty.
struct KeyRange {
  int64_t first = 0;
  int64_t last = 0;
};
KeyRange visible_keys(const AttentionMask& mask, int64_t query, int64_t queries, int64_t keys);
// Over all queries; as fast for any number of them.
double visible_pairs(const AttentionMask& mask, int64_t queries, int64_t keys);

}  // namespace ridgeline
