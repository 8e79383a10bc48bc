// Neighbouring kernels of a plan that one launch can do: what leads to a product of few rows or to
// an attention over a cache, computed by every block for itself, and what follows a product.
//
// A kernel that waits for another costs a microsecond or two, whatever it computes. A decode step
// is a row of kernels that compute next to nothing between products that read weights.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/fuse.h"

namespace ridgeline {

inline constexpr size_t kMostMergedOperands = 12;
// Rows of a product that every block computes for itself, and of one that is followed only.
inline constexpr int64_t kMostPreparedRows = 16, kMostMergedRows = 64;

// A generated kernel whose rows every block computes as far as it needs them.
struct MergedKernel {
  uint32_t kernel = 0;  // of the plan
  uint32_t level = 0;   // it reads what kernels of lower levels write
  // Of each operand, inputs before results: a number in Merge::memory, or in Merge::shared.
  struct Place {
    bool in_memory = true;
    uint32_t number = 0;
  };
  std::vector<Place> inputs = {}, results = {};
  bool is_of_queries = false;  // an attention's: as many rows as there are query heads
};

// Rows that a block of an attention holds in shared memory: those of its key head.
struct MergedRows {
  Value storage = {};
  int64_t elements = 0;  // of one row
  bool is_of_queries = false;
};

// Kernels [begin, end) of the plan.
struct Merge {
  enum class Kind : uint8_t { product, attention };
  Kind kind = Kind::product;
  uint32_t begin = 0, end = 0;
  uint32_t main = 0;  // the product or the attention
  // Generated kernels before it. Of a product at most one, and `x` is the result that it
  // multiplies.
  std::vector<MergedKernel> before = {};
  uint32_t x = 0;
  // Makes one number of elements n and n + columns / 2 of a product's row; which input is which.
  std::optional<uint32_t> pair = {};
  std::vector<uint32_t> pair_halves = {};
  // What kernels before it read and write in memory, with offsets in elements.
  struct Memory {
    Value storage = {};
    int64_t offset = 0;
  };
  std::vector<Memory> memory = {};
  std::vector<MergedRows> shared = {};    // of an attention
  uint32_t query_rows = 0, key_rows = 0;  // of `shared`
  Value value_rows = {};                  // of the graph: what is appended to the values
};

// `may_merge` says of each kernel whether it runs in the main order.
std::vector<Merge> find_merges(const Graph& graph, const std::vector<Layout>& layouts,
                               std::span<const Group* const> kernels,
                               const std::vector<bool>& may_merge);

}  // namespace ridgeline
