// The arguments of the CUDA kernels, seen by both sides: compiled here, and embedded with the
// kernels' text. No include, no name that differs between the two compilers.
#pragma once

namespace ridgeline {

// ---- flash attention

// A tensor as the copy engine of Hopper knows it (CUtensorMap), see tensor_map.cuh. The runtime
// encodes it when a kernel is started.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

// [batch, heads, rows, width]; strides in numbers.
struct FlashTensor {
  void* data;
  long long batch, head;
  int row, column;
};

// Up to four tensors that are cut into planes at once; block y of the grid works on tensor y.
struct FlashPlanesParams {
  FlashTensor from[4];
  unsigned short* planes[4];  // [batch, heads, rows, planes x HEAD_DIM]
  float* factors[4];          // [batch, heads, rows / 16]
  int batches, heads[4], rows[4];
};

// An operand of the function of scores, [batch, heads, queries, keys]; steps in bytes, 0 where it
// is broadcast.
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

// Keys [first, last) outside of which the function hides all from a group of queries, or queries
// from a group of keys; see flash_seen.cu. None: last is 0.
inline constexpr int kSeenGroup = 32;
struct FlashSeen {
  int first, last;
};
struct FlashSeenParams {
  FlashOperand operands[kMaxFlashOperands];
  FlashSeen* seen;   // [batches, heads, groups], of batches and heads in which the function differs
  int heads, group;  // `group` query heads share one of `heads`
  int groups, queries, keys;
};

struct FlashForwardParams {
  TensorMap q_map, k_map, v_map;  // of the warpgroup kernels
  FlashTensor q, k, v, out;
  // For planes: [batch, heads, rows / 16], see flash_planes.cu.
  const float *q_factors, *k_factors, *v_factors;
  float* log_sum_exp;                        // [batch, heads, queries]
  int batches, heads, group, queries, keys;  // `group` query heads share a key head
  int query_tiles, heads_at_once;
  float scale, scale_log2;
  int mask_first, mask_last;  // query q sees the keys [q + first, q + last)
  FlashOperand operands[kMaxFlashOperands];
  const FlashSeen* seen_keys;  // of groups of queries, where SEEN_AXES is a constant
};

// Attention over a cache; see cached_attention.cuh.
struct CachedAttentionParams {
  FlashTensor q, k, v, out;
  float* log_sum_exp;  // [batch, heads, queries]
  const int* position;
  float *parts, *stats;  // scratch of splits: [.., splits, ROWS, WIDTH] and [.., splits, ROWS, 2]
  int key_heads, group, queries;
  int rows, tiles;  // group x queries, and how many times ROWS of them
  int slots, window, splits;
  float scale;
};

inline constexpr int kQueryParts = 32;  // of a head at most: one for each lane of a warp
inline constexpr int kAddingWarps = 4;  // of a block, to dQ
inline constexpr int kCountsOfHead = kAddingWarps * (kQueryParts + 1);

struct FlashBackwardParams {
  TensorMap q_map, k_map, v_map, d_out_map;  // of the warpgroup kernels
  FlashTensor q, k, v, out, d_out, d_q, d_k, d_v;
  FlashTensor d_out_planes;  // d_out itself unless it comes in planes
  const float *q_factors, *k_factors, *v_factors, *d_out_factors;  // for planes
  const float* log_sum_exp;
  // Scratch. Per row of [batch, heads, padded_queries]: log-sum-exp in powers of two, sum(dO * O).
  float *row_shift, *row_dot;
  float* d_q_sum;  // [batch, heads, query_tiles, QUERIES * HEAD_DIM], see flash_query_sums.cuh
  // Where blocks bring dQ into rows, COUNTED, for each head of keys and each of the four warps that
  // add to dQ: how many blocks have added to each part of its queries, then how many parts are
  // done. Heads `sum_heads` apart share sums.
  unsigned* part_counts;
  int part_tiles, sum_heads;
  int batches, heads, key_heads, group, queries, keys;
  int query_tiles, key_tiles, padded_queries, heads_at_once;
  float scale, scale_log2;
  int mask_first, mask_last;
  FlashOperand operands[kMaxFlashOperands];
  // Of operands whose gradients are taken: of one, see flash_backward_operands.cu, or of those that
  // are added up beside the gradients of scores, see flash_operand_sums.cuh, then
  // flash_diagonal_sums.cuh.
  FlashSums sums[kMaxFlashOperands];
  // Of groups of queries, and of groups of keys (heads of keys), where SEEN_AXES is a constant.
  const FlashSeen *seen_keys, *seen_queries;
};

// ---- pointwise ops, rows, reductions

inline constexpr int kMaxAxes = 8;

// An operand of a walk over up to kMaxAxes axes: where it lies, and its step along each, in
// elements.
struct WalkOperand {
  void* data;  // a constant: its value is in `bits` instead
  long long steps[kMaxAxes];
  unsigned bits;
};

// Items are packs of neighbouring elements; the last axis counts them, the others count rows.
struct PointwiseParams {
  WalkOperand operands[4];  // up to three inputs, then the result
  long long items;
  unsigned long long sizes[kMaxAxes];
  int tail;  // elements of the last item; a whole pack: 0
};

// Parts side by side along an axis of [outer, axis, inner]. An item is a pack of neighbours behind
// the axis.
struct ConcatParams {
  struct Part {
    const void* data;
    long long axis_step, outer_steps[kMaxAxes], inner_steps[kMaxAxes];
    int begin, end;  // on the axis
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
  WalkOperand operands[2];  // steps over the axes of the rows
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

// Rows [outer, count, width] go to slots of the cache [outer, slots, width].
struct AppendParams {
  void* cache;
  const void* rows;
  const int* position;
  unsigned long long outer_sizes[kMaxAxes];
  long long outer_steps[kMaxAxes], row_step, column_step;
  long long items, slots, count, stored, packs;  // `stored` of the rows, `packs` in each
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

// ---- many tensors at once; an argument has at most 4 KiB

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
  long long x_stride, w_stride, out_stride;  // from row to row, in elements
  int tokens, rows, columns;                 // rows of x and of w, and how long they are
};

// A product of product_warpgroups.cuh.
struct ProductProblem {
  TensorMap left, right;
  const void *left_data, *right_data;
  int rows, columns, depth;  // `columns` of the work behind the product
  int row_pairs, column_tiles;
};

// A product and pointwise work on its sums.
inline constexpr int kProductOperands = 12;
struct ProductParams {
  ProductProblem products[1];
  int count;  // of products
  int pair;   // from a column to the one that is worked on together with it
  struct Operand {
    void* data;
    long long row;  // elements from row to row
  } operands[kProductOperands];
};

// What an AdamW step has besides its tensors.
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

// AdamW on parameters whose gradients are products that the kernel computes itself
// (product_update.cu).
inline constexpr int kUpdatedProducts = 11;
struct ProductUpdateParams {
  ProductProblem products[kUpdatedProducts];
  int count;
  int pair;  // 0
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
  kResidentPairs,  // a product of whose halves one number is made
  kResidentHead,   // the last product
  kResidentAttention,
  kResidentLocal,  // and those behind it: generated steps
};

// A step as every block has it in shared memory. `at`: operands, in bytes of shared memory.
struct ResidentItem {
  int kind;
  int words;
  int sides, side_bytes;           // vectors that it reads beside
  int first, rows, stages, shift;  // of a product: this block's share, filled in by itself
  int all_rows, depth, steps, chunks;
  const void* weights;  // of a gather: the table; of an attention: the keys
  void* values;         // of an attention; of a gather: the index
  int slots, window;    // of a gather, `slots` is the kind of its index
  int at[12];
};
struct ResidentVector {
  const void* from;
  int bytes, at;
};
inline constexpr int kResidentSides = 4;

// The index of a gather: what memory holds, or what this kernel knows in its later turns.
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
  unsigned* turn;  // how often it has run
  int turns;       // that this start takes: each reads the token that the one before has found
  int* position;   // of the newest token
  int advance;     // by which it grows in a turn
  ResidentTarget targets[kResidentTargets];  // of the largest's place
  void* logits;                              // bf16, or null
  int* largest;                              // or null
};

// ---- the GEMM lab

// Contiguous matrices; block x of the grid is tile (x / blocks_across, x % blocks_across).
struct GemmParams {
  const void *a, *b;  // [m, k], [k, n]
  void* out;          // [m, n]
  long long m, n, k, blocks_across;
};

struct StreamParams {
  const void *a, *b;  // b: of a triad
  void* to;
  long long count;  // of 16 bytes
  int passes;
};

struct HoldParams {
  unsigned long long nanoseconds;
};

}  // namespace ridgeline
