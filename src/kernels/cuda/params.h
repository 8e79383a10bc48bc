// The parameters of the CUDA kernels, for two compilers: the host's, and NVRTC, which gets this
// text embedded with the kernels. It includes nothing and uses no name that differs between them.
#pragma once

namespace ridgeline {

// ---- flash attention

// A tensor descriptor for TMA (CUtensorMap), see tensor_map.cuh. The runtime encodes it at launch.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

// [batch, heads, rows, width]; strides in elements.
struct FlashTensor {
  void* data;
  long long batch, head;
  int row, column;
};

// Up to four tensors to split into planes; blocks with blockIdx.y == i split tensor i.
struct FlashPlanesParams {
  FlashTensor from[4];
  unsigned short* planes[4];  // [batch, heads, rows, planes x HEAD_DIM]
  float* factors[4];          // [batch, heads, rows / 16]
  int batches, heads[4], rows[4];
};

// An operand of the score function, [batch, heads, queries, keys]; strides in bytes, or 0.
inline constexpr int kMaxFlashOperands = 6;
struct FlashOperand {
  const void* data;
  long long batch, head;
  int query, key;
};

struct FlashSums {
  float* data;
  long long count;
};

// The keys [first, last) outside which the score function masks all scores of a group of queries,
// or the queries for a group of keys; see flash_seen.cu. `last` is 0 if there are none.
inline constexpr int kVisibleGroup = 32;
struct VisibleRange {
  int first, last;
};
struct FlashSeenParams {
  FlashOperand operands[kMaxFlashOperands];
  VisibleRange* ranges;  // [batches, heads, groups]; only batches and heads that differ
  int heads, group;      // `group` query heads share one of `heads`
  int groups, queries, keys;
};

struct FlashForwardParams {
  TensorMap q_map, k_map, v_map;  // of the warpgroup kernels
  FlashTensor q, k, v, out;
  // The factors of planes: [batch, heads, rows / 16], see flash_planes.cu.
  const float *q_factors, *k_factors, *v_factors;
  float* log_sum_exp;                        // [batch, heads, queries]
  int batches, heads, group, queries, keys;  // `group` query heads share a key head
  int query_tiles, heads_at_once;
  float scale, scale_log2;
  int mask_first, mask_last;  // query q sees the keys [q + first, q + last)
  FlashOperand operands[kMaxFlashOperands];
  const VisibleRange* visible_keys;  // by group of queries, if VISIBLE_AXES is defined
  unsigned* next_tile;               // the counter from which persistent blocks draw tiles
};

// Attention over a cache; see cached_attention.cuh.
struct CachedAttentionParams {
  FlashTensor q, k, v, out;
  float* log_sum_exp;  // [batch, heads, queries]
  const int* position;
  float *parts, *stats;  // of splits: [.., splits, ROWS, WIDTH] and [.., splits, ROWS, 2]
  int key_heads, group, queries;
  int rows, tiles;  // group x queries, and the tiles of ROWS that they fill
  int slots, window, splits;
  float scale;
};

struct FlashBackwardParams {
  TensorMap q_map, k_map, v_map, d_out_map;  // of the warpgroup kernels
  FlashTensor q, k, v, out, d_out, d_q, d_k, d_v;
  FlashTensor d_out_planes;                                        // d_out, or its planes
  const float *q_factors, *k_factors, *v_factors, *d_out_factors;  // of planes
  const float* log_sum_exp;
  // Scratch. Per row of [batch, heads, padded_queries]: log-sum-exp in base 2, sum(dO * O).
  float *row_shift, *delta;
  // [batch, heads, query_tiles, QUERIES * HEAD_DIM], see flash_query_sums.cuh; with WHOLE_HEADS by
  // block instead of batch and head.
  float* d_q_sum;
  int batches, heads, key_heads, group, queries, keys;
  int query_tiles, key_tiles, padded_queries, heads_at_once;
  float scale, scale_log2;
  int mask_first, mask_last;
  FlashOperand operands[kMaxFlashOperands];
  // Sums of operand gradients: of one operand (flash_backward_operands.cu), or of those that the
  // main kernel adds up, first flash_operand_sums.cuh, then flash_diagonal_sums.cuh.
  FlashSums sums[kMaxFlashOperands];
  // By group of queries, and by group of keys (of key heads), if VISIBLE_AXES is defined.
  const VisibleRange *visible_keys, *visible_queries;
};

// ---- pointwise ops, rows, reductions

inline constexpr int kMaxAxes = 8;

// An operand of a walk over up to kMaxAxes axes: its address, and its stride in elements per axis.
struct WalkOperand {
  void* data;  // null for a constant, whose value is in `bits`
  long long steps[kMaxAxes];
  unsigned bits;
};

// Items are packs of adjacent elements; the last axis counts them, the others count rows.
struct PointwiseParams {
  WalkOperand operands[4];  // up to three inputs, then the result
  long long items;
  unsigned long long sizes[kMaxAxes];
  int tail;  // elements of the last item; 0: a whole pack
};

// Parts that are concatenated along an axis of [outer, axis, inner]. An item is a pack of adjacent
// elements of the inner axes.
struct ConcatParams {
  struct Part {
    const void* data;
    long long axis_step, outer_steps[kMaxAxes], inner_steps[kMaxAxes];
    int begin, end;  // along the axis
  } parts[4];
  void* out;  // contiguous
  long long items, inner;
  unsigned long long outer_sizes[kMaxAxes], inner_sizes[kMaxAxes];
  int axis_size;
};

struct IotaParams {
  int* out;
  long long count;
};

// Rows along the last axis. The result is contiguous.
struct RowsParams {
  WalkOperand operands[2];  // strides over the axes of the rows
  long long column_steps[2];
  void* out;
  long long rows, width;
  unsigned long long sizes[kMaxAxes];
};

// Each result folds `reduced` items, `part_size` of them per blockIdx.y.
struct ReduceParams {
  const void* data;
  void* out;
  long long results, reduced, part_size;
  float scale;
  unsigned long long kept_sizes[kMaxAxes], reduced_sizes[kMaxAxes];
  long long kept_steps[kMaxAxes], reduced_steps[kMaxAxes];
};

// ---- rows and elements by index

struct GatherParams {
  const void* table;
  const int* indices;
  void* out;  // [count, width]
  long long row_step, column_step, index_step;
  long long rows, count, width;  // `rows` of the table
};

struct ScatterAddParams {
  const void* updates;  // [count, width]
  const int* indices;
  void* out;
  long long row_step, column_step, index_step;  // of the updates
  long long count, width;
};

struct PickParams {
  const void* x;  // [count, width]
  const int* indices;
  void* out;
  long long row_step, column_step, index_step;
  long long count, width;
};

struct PlaceParams {
  const void* values;
  const int* indices;
  void* out;  // [count, width]
  long long value_step, index_step;
  long long count, width;
};

struct ArgmaxParams {
  const void* x;             // [rows, width]
  unsigned long long* keys;  // [rows, parts], unless there is one part
  int* out;
  long long row_step, column_step, width, part_size;
  int rows, parts;
};

// ---- a cache of rows

// Writes rows [outer, count, width] to the slots of a cache [outer, slots, width].
struct AppendParams {
  void* cache;
  const void* rows;
  const int* position;
  unsigned long long outer_sizes[kMaxAxes];
  long long outer_steps[kMaxAxes], row_step, column_step;
  long long items, slots, count, stored, packs;  // the last `stored` rows, of `packs` each
};

struct AdvanceParams {
  int* position;
  int count;
};

struct RingPositionsParams {
  const int* position;
  int* out;
  int count, slots;
};

// ---- many tensors per launch; the parameters of a kernel take at most 4 KiB

struct SumOfSquaresParams {
  struct Tensor {
    const void* data;
    long long count, step;
    int first_block;
  } tensors[120];
  float* sums;  // one for each block
  int count;
};

struct FewRowsParams {
  const void *x, *w;
  void* out;
  long long x_stride, w_stride, out_stride;  // between rows, in elements
  int tokens, rows, columns;                 // rows of x, rows of w, and their length
};

// A product of product_warpgroups.cuh.
struct ProductProblem {
  TensorMap left, right;
  const void *left_data, *right_data;
  int rows, columns, depth;  // `columns`: of the epilogue
  int row_pairs, column_tiles;
};

// A product with a pointwise epilogue.
inline constexpr int kProductOperands = 12;
struct ProductParams {
  ProductProblem products[1];
  int count;  // of products
  int pair;   // distance of the columns that the epilogue takes together
  struct Operand {
    void* data;
    long long row;  // stride, in elements
  } operands[kProductOperands];
};

// The parameters of an AdamW step besides its tensors.
struct AdamWNumbers {
  const float* scalars;  // learning rate, 1 - beta1^t, 1 - beta2^t
  const float* gradient_scale;
  float keep_first, take_first, keep_second, take_second, epsilon, weight_decay;
};
struct AdamWParams {
  struct Tensor {
    void* parameter;
    const void* gradient;
    float *first_moment, *second_moment;
    void* copy;
    long long count, gradient_step;
    int first_block;
  } tensors[62];
  AdamWNumbers numbers;
  int count;
};

// AdamW on parameters whose gradients are products that the kernel computes (product_update.cu).
inline constexpr int kUpdatedProducts = 11;
struct ProductUpdateParams {
  ProductProblem products[kUpdatedProducts];
  int count;
  int pair;  // not used
  struct Tensor {
    void* parameter;
    float *first_moment, *second_moment;
    void* copy;
  } tensors[kUpdatedProducts];
  AdamWNumbers numbers;
};

struct LossScaleParams {
  float* state;  // scale, good steps, skipped steps
  const float* norm;
  long long growth_interval;  // 0: the scale never changes
};

static_assert(sizeof(SumOfSquaresParams) <= 4096 && sizeof(AdamWParams) <= 4096 &&
              sizeof(ProductUpdateParams) <= 4096);

// ---- resident kernels

enum ResidentKind : int {
  kResidentGather,
  kResidentProduct,
  kResidentPairs,  // a product whose two halves are combined into one vector
  kResidentHead,   // the last product: logits
  kResidentAttention,
  kResidentLocal,  // and the numbers after it: generated steps
};

// A step of a resident kernel, copied to the shared memory of every block. `at`: the operands'
// offsets in shared memory, in bytes.
struct ResidentItem {
  int kind;
  int words;
  int sides, side_bytes;           // vectors that it reads from global memory
  int first, rows, stages, shift;  // of a product: this block's share, set by the kernel
  int all_rows, depth, steps, chunks;
  const void* weights;  // gather: the table; product: the weights; attention: the keys
  void* values;         // attention: the values; gather: the index
  int slots, window;    // of attention; a gather has its ResidentIndex in `slots`
  int at[12];
};
struct ResidentVector {
  const void* from;
  int bytes, at;
};
inline constexpr int kResidentSides = 4;

// The index of a gather: in memory, or known to the kernel in its later turns.
enum ResidentIndex : int { kIndexInMemory, kIndexIsToken, kIndexIsPosition };

struct ResidentTarget {
  int* to;
  int slots;
};
inline constexpr int kResidentTargets = 2;

struct ResidentParams {
  const ResidentItem* items;
  const ResidentVector* vectors;  // kResidentSides for each item
  unsigned long long* words;
  unsigned* turn;  // turns so far, of all launches
  int turns;       // of this launch; each reads the token that the turn before found
  int* position;   // of the newest token
  int advance;     // its increment per turn
  ResidentTarget targets[kResidentTargets];  // receive the index of the largest logit
  void* logits;                              // bf16, or null
  int* largest;                              // its index, or null
};

// ---- the GEMM lab

// Contiguous matrices; block x of the grid computes tile (x / blocks_across, x % blocks_across).
struct GemmParams {
  const void *a, *b;  // [m, k], [k, n]
  void* out;          // [m, n]
  long long m, n, k, blocks_across;
};

struct StreamParams {
  const void *a, *b;  // b: for a triad
  void* to;
  long long count;  // of 16-byte packs
  int passes;
};

struct HoldParams {
  unsigned long long nanoseconds;
};

}  // namespace ridgeline
