// The gradient of one operand of the score function. A block has one tile of scores, loops over the batches and heads
// along which the operand is broadcast, and adds up along queries and keys if it is broadcast there as well: every sum
// has one writer and a fixed order. With DIAGONALS a block has the tiles along a diagonal, and sums are cleared before:
// each gets additions from at most two blocks, whose order does not matter.
//
// Constants beside those of flash_common.cuh: TILE (queries and keys of a block), WARPS; BATCHES, HEADS, QUERIES, KEYS
// (whether the operand varies along that axis); DIAGONALS (it varies along queries and keys, and sums along diagonals
// are wanted). SCORE_GRADIENT is the gradient of the operand here.
#include "flash_common.cuh"

namespace ridgeline {

constexpr int kTile = TILE, kWarps = WARPS;
constexpr int kThreads = 32 * kWarps;
static_assert(kTile == 16 * kWarps);
constexpr int kTiles = kTile / 8;
constexpr int kTileBytes = Rows::bytes(kTile);
constexpr int kRow = kTile + 1;  // floats of a row of sums in shared memory, padded against bank conflicts

// Adds up kCount floats that are kStep apart: a row or a column of sums.
template <int kCount, int kStep>
__device__ __forceinline__ float add_up(const float* from) {
  float sum = 0;
  for (int i = 0; i < kCount; ++i) sum += from[i * kStep];
  return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads)
flash_backward_operands(const __grid_constant__ FlashBackwardParams p) {
  wait_for_earlier_kernels();
  // Blocks count tiles, keys fastest, or diagonals of tiles; then heads and batches along which the operand varies.
  unsigned number = blockIdx.x;
  const int tiles = DIAGONALS ? p.query_tiles + p.key_tiles - 1 : p.query_tiles * p.key_tiles;
  const int tile = int(number % tiles);
  number /= tiles;
  const int own_heads = HEADS ? p.heads : 1;
  const int own_head = int(number % own_heads), own_batch = int(number / own_heads);
  const int query_tile = DIAGONALS ? max(p.query_tiles - 1 - tile, 0) : tile / p.key_tiles;
  const int key_tile = DIAGONALS ? max(tile - (p.query_tiles - 1), 0) : tile % p.key_tiles;
  const int count = DIAGONALS ? min(p.query_tiles - query_tile, p.key_tiles - key_tile) : 1;
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};

  const Rows left{shared_address()}, right{shared_address() + kTileBytes};
  const int warp_row = warp() * 16;
  Accumulator sums[kTiles] = {};
  const int rounds = (BATCHES ? 1 : p.batches) * (HEADS ? 1 : p.heads);
  for (int step = 0; step < count * rounds; ++step) {
    const int round = step % rounds;
    const int first_query = (query_tile + step / rounds) * kTile, first_key = (key_tile + step / rounds) * kTile;
    const int warp_query = first_query + warp_row, last_query = min(first_query + kTile, p.queries) - 1;
    const bool any = visible.keys_of(first_query).first < first_key + kTile &&
                     first_key < visible.keys_of(last_query).last;
    if (!any) continue;
    const int batch = BATCHES ? own_batch : round / (HEADS ? 1 : p.heads);
    const int head = HEADS ? own_head : round % p.heads;
    const int head_number = batch * p.heads + head;
    const int key_head = head / p.group, key_head_number = head_number / p.group;
    const Factors q_factors(p.q_factors, head_number, p.queries);
    const Factors d_out_factors(p.d_out_factors, head_number, p.queries);
    const Factors k_factors(p.k_factors, key_head_number, p.keys);
    const Factors v_factors(p.v_factors, key_head_number, p.keys);
    Accumulator scores[1][kTiles] = {}, d_weights[1][kTiles] = {};
    const auto multiply_rows = [&](Accumulator(&result)[1][kTiles], const FlashTensor& queries,
                                   const FlashTensor& keys) {
      __syncthreads();
      load_rows<kTile, kThreads>(left, Inputs(queries, batch, head), first_query, p.queries);
      load_rows<kTile, kThreads>(right, Inputs(keys, batch, key_head), first_key, p.keys);
      commit_copies();
      wait_for_copies<0>();
      __syncthreads();
      multiply_tiles<Element, kHeadDim / kStep>(
          result, [&](FragmentA<Element>(&a)[1], int step) { a[0] = load_a(left, warp_row, step * kStep); },
          [&](FragmentB<Element>(&b)[2], int step, int n) { load_b_pair(b, right, 8 * n, step * kStep); });
    };
    multiply_rows(scores, p.q, p.k);
    mask_scores(scores, warp_query, first_key, [&](int query) { return visible.keys_of(query); });
    multiply_rows(d_weights, p.d_out_planes, p.v);
    const float q_factor = q_factors(warp_query, p.queries), d_out_factor = d_out_factors(warp_query, p.queries);
    const float* shifts = p.row_shift + static_cast<long long>(head_number) * p.padded_queries;
    const float* deltas = p.delta + static_cast<long long>(head_number) * p.padded_queries;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int query = warp_query + row_in_tile(i), key = first_key + 8 * n + column_in_tile(i);
        const float product = scores[0][n].v[i] * k_factors(first_key + 8 * n, p.keys) * q_factor;
        if (query >= p.queries || product == -infinity()) continue;
        const ScorePlace at = {p.operands, batch, head, query, key};
        const float d_weight = d_weights[0][n].v[i] * (v_factors(first_key + 8 * n, p.keys) * d_out_factor);
        const float weight = exp2(at_most(score_value(at, product) * p.scale_log2 - shifts[query], 0));
        sums[n].v[i] += score_gradient(at, product, weight * (d_weight - deltas[query]));
      }
  }

  __syncthreads();
  float* shared = reinterpret_cast<float*>(shared_memory);
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) shared[(warp_row + row_in_tile(i)) * kRow + 8 * n + column_in_tile(i)] = sums[n].v[i];
  __syncthreads();

  const int place = threadIdx.x;
  if (DIAGONALS) {
    // Thread `place` adds up the scores of this tile whose key - query is `after`.
    const int after = place - (kTile - 1);
    float sum = 0;
    for (int row = max(-after, 0); row < min(kTile - after, kTile); ++row) sum += shared[row * kRow + row + after];
    const int length = p.queries + p.keys - 1, at = (key_tile - query_tile) * kTile + after + p.queries - 1;
    if (after < kTile && at >= 0 && at < length)
      atomicAdd(p.sums[0].data + (static_cast<long long>(own_batch) * own_heads + own_head) * length + at, sum);
    return;
  }
  const int first_query = query_tile * kTile, first_key = key_tile * kTile;
  const int rows = QUERIES ? p.queries : p.query_tiles, columns = KEYS ? p.keys : p.key_tiles;
  float* to = p.sums[0].data + (static_cast<long long>(own_batch) * own_heads + own_head) * rows * columns;
  if (QUERIES && KEYS) {
    for (int i = place; i < kTile * kTile; i += kThreads) {
      const int query = first_query + i / kTile, key = first_key + i % kTile;
      if (query < p.queries && key < p.keys)
        to[static_cast<long long>(query) * columns + key] = shared[i / kTile * kRow + i % kTile];
    }
  } else if (KEYS) {
    if (place < kTile && first_key + place < p.keys)
      to[static_cast<long long>(query_tile) * columns + first_key + place] = add_up<kTile, kRow>(shared + place);
  } else if (place < kTile) {
    const float sum = add_up<kTile, 1>(shared + place * kRow);
    if (QUERIES) {
      if (first_query + place < p.queries)
        to[static_cast<long long>(first_query + place) * columns + key_tile] = sum;
    } else {
      shared[place * kRow] = sum;  // no other thread reads this row
    }
  }
  if (!QUERIES && !KEYS) {
    __syncthreads();
    if (place == 0)
      to[static_cast<long long>(query_tile) * columns + key_tile] = add_up<kTile, kRow>(shared);
  }
}

}  // namespace ridgeline
