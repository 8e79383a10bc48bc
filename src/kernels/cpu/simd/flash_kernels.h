// The vector code of flash attention: one query tile or one key tile at a time.
#pragma once

#include <cstdint>

namespace ridgeline {

enum class FlashStorage : uint8_t { f32, bf16, f16 };

// The rows of one head of a tensor; strides count elements.
struct FlashRows {
  void* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
  FlashStorage storage = FlashStorage::f32;
};

// Query i sees the keys in [first_key(i), end_key(i)); both grow with i.
struct FlashMask {
  int64_t keys = 0;    // Sk
  int64_t offset = 0;  // the key position of query 0
  bool causal = false;
  int64_t window = 0;  // 0: unlimited
};

struct FlashRange {
  int64_t begin = 0, end = 0;
};

// Static, because the linker may merge other inline functions across instruction sets.
static inline int64_t first_key(const FlashMask& mask, int64_t query) {
  const int64_t first = mask.window > 0 ? query + mask.offset - mask.window + 1 : 0;
  return first < 0 ? 0 : first > mask.keys ? mask.keys : first;
}

static inline int64_t end_key(const FlashMask& mask, int64_t query) {
  const int64_t end = mask.causal ? query + mask.offset + 1 : mask.keys;
  return end < 0 ? 0 : end > mask.keys ? mask.keys : end;
}

// The keys that at least one of the queries sees.
static inline FlashRange visible_keys(const FlashMask& mask, FlashRange queries) {
  const int64_t begin = first_key(mask, queries.begin);
  const int64_t end = end_key(mask, queries.end - 1);
  return {begin, end < begin ? begin : end};
}

static inline bool all_visible(const FlashMask& mask, FlashRange queries, FlashRange keys) {
  return first_key(mask, queries.end - 1) <= keys.begin && keys.end <= end_key(mask, queries.begin);
}

// A tile of scores: rows of `stride` floats, the last of which may be padding.
struct FlashScores {
  FlashRange rows, columns;
  bool rows_are_keys = false;
  int64_t stride = 0;
};

// f of softmax(f(q k^T)) v for one head; null functions if there is none.
struct FlashFunction {
  const void* self = nullptr;
  int64_t batch = 0, head = 0;
  // Replaces scores by f of them.
  void (*apply)(const FlashFunction& function, const FlashScores& place, float* scores) = nullptr;
  // Turns gradients of f at `scores` into gradients of the scores.
  void (*differentiate)(const FlashFunction& function, const FlashScores& place,
                        const float* scores, float* gradients) = nullptr;
  // Whether f leaves any score of a tile visible, if it hides scores whatever their values are;
  // else null.
  bool (*sees)(const FlashFunction& function, const FlashScores& place) = nullptr;
};

static inline bool is_seen(const FlashFunction& function, const FlashScores& place) {
  return function.sees == nullptr || function.sees(function, place);
}

struct FlashTileSizes {
  int64_t queries = 0;
  int64_t keys = 0;
};

struct FlashForwardTile {
  FlashRows q, k, v, out;
  float* log_sum_exp = nullptr;
  int64_t log_sum_exp_stride = 1;
  FlashRange queries;
  int64_t head_dim = 0;
  float scale = 1.0f;
  FlashMask mask;
  FlashFunction function;
};

// One (batch, head) of a backward problem. `delta` and `row_log_sum_exp` hold one value per query,
// written by prepare_queries: scale * rowsum(dO * O), and the log-sum-exp without strides.
struct FlashBackwardHead {
  FlashRows q, k, v, out, d_out;
  FlashRows d_q, d_k, d_v;
  const float* log_sum_exp = nullptr;
  int64_t log_sum_exp_stride = 1;
  float* delta = nullptr;
  float* row_log_sum_exp = nullptr;
  int64_t head_dim = 0;
  float scale = 1.0f;
  FlashMask mask;
  FlashFunction function;
};

struct FlashForwardKernel {
  FlashTileSizes tiles;
  int64_t (*scratch_floats)(int64_t head_dim) = nullptr;
  void (*run)(const FlashForwardTile& tile, float* scratch) = nullptr;
};

// `scratch` is aligned to 64 bytes and belongs to the calling thread.
struct FlashBackwardKernels {
  FlashTileSizes tiles;  // the largest
  int64_t (*scratch_floats)(int64_t head_dim) = nullptr;
  void (*prepare_queries)(const FlashBackwardHead& head, FlashRange queries,
                          float* scratch) = nullptr;

  // dQ of a query tile over all keys.
  void (*query_gradient)(const FlashBackwardHead& head, FlashRange queries,
                         float* scratch) = nullptr;

  // dK and dV of a key tile: begin_keys; for each query tile of each head that shares the keys
  // find_score_gradients and add_queries; finish_keys, after at least one query tile.
  // add_query_gradient may follow each add_queries: it adds the same pair of tiles to dQ in an fp32
  // accumulator with rows of `row_stride` floats, padded to a multiple of kAccumulatorRows rows.
  // The `first` addition overwrites.
  void (*begin_keys)(const FlashBackwardHead& head, FlashRange keys, float* scratch) = nullptr;
  void (*find_score_gradients)(const FlashBackwardHead& head, FlashRange keys, FlashRange queries,
                               float* scratch) = nullptr;
  void (*add_queries)(const FlashBackwardHead& head, FlashRange keys, FlashRange queries,
                      bool first, float* scratch) = nullptr;
  void (*add_query_gradient)(const FlashBackwardHead& head, FlashRange keys, FlashRange queries,
                             float* accumulator, int64_t row_stride, bool first,
                             float* scratch) = nullptr;
  void (*finish_keys)(const FlashBackwardHead& head, FlashRange keys, float* scratch) = nullptr;

  // The padded length of accumulator rows, in floats.
  int64_t (*padded_head_dim)(int64_t head_dim) = nullptr;
  // Narrows rows of fp32 sums to the storage of `to`, each times its own factor if there are
  // factors; `row_stride` 0 and a row of zeros clear it.
  void (*store_rows)(const float* sums, int64_t row_stride, const float* factors,
                     const FlashRows& to, FlashRange rows, int64_t head_dim) = nullptr;
};

inline constexpr int64_t kAccumulatorRows = 32;

namespace portable {
extern const FlashForwardKernel kForward;
extern const FlashBackwardKernels kBackward;
}  // namespace portable
namespace avx2 {
extern const FlashForwardKernel kForward;
extern const FlashBackwardKernels kBackward;
}  // namespace avx2
namespace avx512 {
extern const FlashForwardKernel kForward;
extern const FlashBackwardKernels kBackward;
// In blocks of bf16, if fits_blocks() holds: on matrix units (AMX), and by dot products of pairs.
extern const FlashForwardKernel kForwardByMatrixUnits, kForwardByDots;
extern const FlashBackwardKernels kBackwardByMatrixUnits, kBackwardByDots;
}  // namespace avx512

}  // namespace ridgeline
