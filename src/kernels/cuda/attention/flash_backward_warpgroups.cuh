// Shared by the Hopper backward kernels that keep keys. A block keeps a tile of keys and loops over the queries that
// see them. Its warpgroups are specialised:
//
//   gradients  two warpgroups compute dK and dV; how they share that work differs between the kernels
//   dQ         one computes dQ = dS K from the dS that they hand over, and adds it to sums shared by all blocks
//   loads      a producer thread issues TMA copies as far ahead as the rings have free stages; where gradients are
//              added up along diagonals (flash_diagonal_sums.cuh), two other warps of its warpgroup do that
//
// So additions and loads delay no product, and a warpgroup that waits leaves the tensor cores to the others. In the
// first of two passes dQ is not computed; flash_backward_queries_warpgroups.cu does that.
//
// As in flash_backward_keys.cu, scores are computed transposed, keys x queries, so that P and dS are left operands in
// registers for dV = P^T dO and dK = dS^T Q.
//
// Constants beside those of flash_common.cuh: STAGES (tiles of queries, and as many of dO, in shared memory),
// SINGLE_PASS (dQ is computed as well), CONVERTS_DQ (the last block that adds to some queries converts their dQ to
// rows, and no kernel follows).
#pragma once

#include "flash_chain.cuh"
#include "flash_common.cuh"
#include "flash_diagonal_sums.cuh"
#include "flash_operand_sums.cuh"
#include "flash_query_sums.cuh"
#include "tensor_map.cuh"

namespace ridgeline {

constexpr int kQueries = 64, kStages = STAGES;
constexpr bool kSinglePass = SINGLE_PASS, kConvertsDq = CONVERTS_DQ;
constexpr int kScoreTiles = kQueries / 8, kWidthTiles = kHeadDim / 8;
constexpr int kQuerySteps = kQueries / kStep;

// The first kGradients warpgroups compute dK and dV, the next one dQ; warpgroup kLoads loads.
constexpr int kGradients = 2, kLoads = kGradients + 1, kThreads = (kLoads + 1) * kWarpgroup;
// Registers of a thread in each warpgroup; together what a multiprocessor has.
constexpr int kGradientRegisters = 208, kDQueriesRegisters = kDiagonals > 0 ? 64 : 72;
constexpr int kLoadsRegisters = kDiagonals > 0 ? 32 : 24;
static_assert(kWarpgroup * (kGradients * kGradientRegisters + kDQueriesRegisters + kLoadsRegisters) <= 65536);

// The steps of a block: tiles of queries of one head, then of the next head of the group. Blocks of one head start at
// different tiles, so that they do not all add to the same sums at once; with a mask they start apart anyway.
template <int kKeys>
struct QuerySteps {
  int begin, end, start;  // the tiles whose queries see a key of this block, and the first one; the same for each head
  int count;
  int tile, head;  // of the current step

  // The queries that see any key of a tile under the mask.
  __device__ __forceinline__ static Span seeing(const Visible& visible, int tile) {
    const int first_key = tile * kKeys, last_key = min(first_key + kKeys, visible.keys) - 1;
    return {visible.queries_of(first_key).first, visible.queries_of(last_key).last};
  }

  __device__ QuerySteps(const FlashBackwardParams& p, const Visible& visible, const BlockTile& own) {
    Span any = seeing(visible, own.tile);
    if constexpr (kSkips) {
      const Span range = visible_range<kKeys>(p.visible_queries, own.batch, own.head, p.key_heads, own.tile * kKeys,
                                              p.keys, p.queries);
      any = {max(any.first, range.first), min(any.last, range.last)};
    }
    begin = any.first / kQueries;
    end = (any.last + kQueries - 1) / kQueries;
    const int tiles = max(end - begin, 0);
    count = tiles * p.group;
    start = kMasked || tiles == 0 ? begin : begin + own.tile % tiles;
    tile = start, head = own.head * p.group;
  }
  __device__ __forceinline__ void next() {
    if (++tile == end) tile = begin;
    if (tile == start) ++head;
  }
  __device__ __forceinline__ int head_number(const FlashBackwardParams& p, const BlockTile& own) const {
    return own.batch * p.heads + head;
  }
  __device__ __forceinline__ static int key_head_number(const FlashBackwardParams& p, const BlockTile& own) {
    return own.batch * p.key_heads + own.head;
  }
  // The place of the tile's first query in row_shift and delta.
  __device__ __forceinline__ long long row(const FlashBackwardParams& p, const BlockTile& own) const {
    return static_cast<long long>(head_number(p, own)) * p.padded_queries + tile * kQueries;
  }
  // The tile's sums of dQ.
  __device__ __forceinline__ float* sums(const FlashBackwardParams& p, const BlockTile& own) const {
    return sums_of(p, own, head - own.head * p.group) + tile * (kQueries * kHeadDim);
  }
  // The sums of dQ of a head of the group.
  __device__ __forceinline__ static float* sums_of(const FlashBackwardParams& p, const BlockTile& own, int head) {
    const int number = key_head_number(p, own);
    const long long place = kConvertsDq ? number % p.sum_heads : number;
    return p.d_q_sum + (place * p.group + head) * p.query_tiles * (kQueries * kHeadDim);
  }
};

// The coordinates of the first score of a warp's 16 keys, keys x queries.
struct FirstScore {
  int batch, head, query, key;

  // The coordinates of element `i` of tile `n`.
  __device__ __forceinline__ ScorePlace place(const FlashBackwardParams& p, int n, int i) const {
    return {p.operands, batch, head, min(query + 8 * n + column_in_tile(i), p.queries - 1),
            min(key + row_in_tile(i), p.keys - 1)};
  }
};

// Turns scores into weights. `shifts`: the log-sum-exps of the queries, in shared memory. Queries beyond the last have
// an infinite shift and so no weight, unless a score function interferes; without function and mask only keys beyond
// the last are masked.
template <int kTiles>
__device__ __forceinline__ void weigh(Accumulator (&scores)[1][kTiles], ScoreChain<kTiles>& chain,
                                      const FlashBackwardParams& p, const Visible& visible, FirstScore first,
                                      unsigned shifts) {
  chain.apply(scores[0], [&](int n, int i) { return first.place(p, n, i); });
  constexpr bool kMasksQueries = kMasked || kFunction;
  const Span common = {visible.queries_of(first.key + 15).first, visible.queries_of(first.key).last};
  if (first.key + 16 > p.keys || (kMasksQueries && !common.covers(first.query, first.query + 8 * kTiles)))
    mask_scores(scores, first.key, kMasksQueries ? first.query : 0, [&](int row) { return visible.queries_of(row); });
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float shift[2];
    load_floats(shift[0], shift[1], shifts + 4 * (8 * n + 2 * (lane() % 4)));
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[0][n].v[i] = exp2(scores[0][n].v[i] * p.scale_log2 - shift[i % 2]);
  }
}

// Turns gradients of weights into gradients of scores, P (dP - delta). `deltas`: sum(dO * O) of the queries, in shared
// memory; weights_of(n) returns tile n of P.
template <class WeightsOf>
__device__ __forceinline__ void differentiate(Accumulator (&d_weights)[kScoreTiles], unsigned deltas,
                                              WeightsOf weights_of) {
#pragma unroll
  for (int n = 0; n < kScoreTiles; ++n) {
    float delta[2];
    load_floats(delta[0], delta[1], deltas + 4 * (8 * n + 2 * (lane() % 4)));
    const Accumulator weights = weights_of(n);
#pragma unroll
    for (int i = 0; i < 4; ++i) d_weights[n].v[i] = weights.v[i] * (d_weights[n].v[i] - delta[i % 2]);
  }
}

__device__ __forceinline__ void pack(FragmentA<Element> (&fragments)[kQuerySteps],
                                     const Accumulator (&results)[kScoreTiles]) {
#pragma unroll
  for (int q = 0; q < kQuerySteps; ++q) fragments[q] = a_from_results<Element>(results, q);
}

// The shared memory of a block, and the work of the dQ and loading warpgroups. kWriters warps write dS; with kStaged,
// additions to dQ are staged in shared memory, which is faster where there is room.
template <int kKeys, int kWriters, bool kStaged>
struct BackwardBlock {
  static constexpr int kKeyCount = kKeys;
  using Steps = QuerySteps<kKeys>;
  using KeyRows = Panels<kKeys, kHeadDim>;
  using QueryRows = Panels<kQueries, kHeadDim>;
  using KeyPlace = TileRing<KeyRows, 1>;
  using QueryRing = TileRing<QueryRows, kStages, true>;  // plain loads read the shifts and deltas beside it
  using DScoreRing = TileRing<Panels<kKeys, kQueries>, 2, (kDiagonals > 0)>;  // diagonals are read by plain loads
  // dQ is computed one panel at a time.
  static constexpr int kPanelTiles = (kHeadDim < kPanel ? kHeadDim : kPanel) / 8;
  static constexpr int kLastPanelTiles = (kWidthTiles - 1) % kPanelTiles + 1;
  static constexpr int kWarpSums = 16 * kPanel * 4;  // bytes of a warp's part of a panel
  static constexpr int kTileBytes = 2 * KeyPlace::kTileBytes + 2 * QueryRing::kTileBytes + DScoreRing::kTileBytes;

  const FlashBackwardParams& p;
  const Visible visible;
  const unsigned staging = shared_address() + kTileBytes;
  const KeyPlace k_place{shared_address(), staging + (kStaged ? 4 * kWarpSums : 0)};
  const KeyPlace v_place = ring_after<KeyPlace>(k_place);
  const QueryRing q_ring = ring_after<QueryRing>(v_place), d_out_ring = ring_after<QueryRing>(q_ring);
  const DScoreRing d_score_ring = ring_after<DScoreRing>(d_out_ring);
  const unsigned numbers = d_score_ring.barriers + DScoreRing::kBarrierBytes;  // shifts, then deltas of each stage
  const unsigned end = numbers + 2 * kStages * 4 * kQueries;  // diagonal sums or the wide kernel's weights follow

  __device__ __forceinline__ explicit BackwardBlock(const FlashBackwardParams& params)
      : p(params), visible{p.mask_first, p.mask_last, p.queries, p.keys} {}

  // Called by one thread before the barriers are used.
  __device__ __forceinline__ void set_up() const {
    k_place.set_up(1, 4 * kGradients);
    v_place.set_up(1, 4 * kGradients);
    q_ring.set_up(1, 4 * kGradients);
    d_out_ring.set_up(1, 4 * kGradients);
    d_score_ring.set_up(kWriters * DScoreRing::kLanes, 4 + (kDiagonals > 0 ? kDiagonalWarps : 0));
    fence_barrier_init();
  }

  __device__ __forceinline__ unsigned shifts(int step) const { return numbers + step % kStages * (4 * kQueries); }
  __device__ __forceinline__ unsigned deltas(int step) const { return shifts(step) + kStages * (4 * kQueries); }
  // Recomputed by every warpgroup, and again at the end: registers are scarcer than instructions.
  __device__ __forceinline__ BlockTile block_tile() const {
    return BlockTile(p.key_tiles, p.key_heads, p.batches, p.heads_at_once, false);
  }

  // The work of warpgroups other than those that compute dK and dV.
  __device__ __forceinline__ void serve(int warpgroup) const {
    if (warpgroup == kLoads) {
      decrease_registers<kLoadsRegisters>();
      const int number = __shfl_sync(~0u, warp() % 4, 0);  // known to be uniform in a warp
      if (number == 0) {
        if (lane() == 0) load_all();
      } else if constexpr (kDiagonals > 0) {
        static_assert(kSinglePass && kKeys == kDiagonalWarps * DiagonalSums::kKeys);
        if (number <= kDiagonalWarps) add_diagonals((number - 1) * DiagonalSums::kKeys);
      }
    } else {
      decrease_registers<kDQueriesRegisters>();
      if (kSinglePass) add_d_queries();
    }
  }

  __device__ __forceinline__ void load_all() const {
    const unsigned long long policy = evict_last();
    const BlockTile own = block_tile();
    Steps steps(p, visible, own);
    const auto load_keys = [&](const KeyPlace& place, const TensorMap& map) {
      place.fill(0, KeyRows::kBytes, [&](KeyRows tile, MBarrier arrived) {
        copy_tile(tile, map, {own.tile * kKeys, own.head, own.batch}, arrived, policy);
      });
    };
    const auto load_queries = [&](const QueryRing& ring, int step, const TensorMap& map, const float* from,
                                  unsigned to) {
      constexpr int kNumbersBytes = 4 * kQueries;
      ring.fill(step, QueryRows::kBytes + kNumbersBytes, [&](QueryRows tile, MBarrier arrived) {
        copy_tile(tile, map, {steps.tile * kQueries, steps.head, own.batch}, arrived, policy);
        copy_bytes(to, from + steps.row(p, own), kNumbersBytes, arrived);
      });
    };
    load_keys(k_place, p.k_map);
    for (int step = 0; step < steps.count; ++step) {
      load_queries(q_ring, step, p.q_map, p.row_shift, shifts(step));
      if (step == 0) load_keys(v_place, p.v_map);
      load_queries(d_out_ring, step, p.d_out_map, p.delta, deltas(step));
      steps.next();
    }
  }

  // Adds up the gradients of the warp's keys, from `row` of the block on, along diagonals.
  __device__ __forceinline__ void add_diagonals(int row) const {
    const BlockTile own = block_tile();
    Steps steps(p, visible, own);
    DiagonalSums sums{end + row / DiagonalSums::kKeys * DiagonalSums::kBytes};
    for (int step = 0; step < steps.count; ++step) {
      sums.add_up(d_score_ring.wait_full(step), row, [&] { d_score_ring.release(step); });
      const int first = own.tile * kKeys + row - steps.tile * kQueries + p.queries - kQueries;
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int number = 32 * part + lane(), place = first + number;
        const float sum = sums.sum(number);
        if (place >= 0 && place < p.queries + p.keys - 1) add_to_diagonal(p, own.batch, steps.head, place, sum);
      }
      __syncwarp();
      steps.next();
    }
  }

  __device__ __forceinline__ void add_d_queries() const {
    const int warp_row = 16 * (warp() % 4);
    const BlockTile own = block_tile();
    const KeyRows k_tile = k_place.wait_full(0);
    Steps steps(p, visible, own);
    if constexpr (kConvertsDq) wait_for_sums(own);
    const auto add = [&]<int kTiles>(float* to, const Accumulator(&d_q)[kPanelTiles]) {
      if constexpr (kStaged)
        add_shared<kTiles>(to, d_q, staging + warp() % 4 * kWarpSums);
      else
        add_row<kTiles>(to, d_q);
    };
    for (int step = 0; step < steps.count; ++step) {
      float* sums = steps.sums(p, own) + place_of_sum(warp_row, 0);
      const auto d_score_tile = d_score_ring.wait_full(step);
#pragma unroll 1
      for (int column = 0; column < kHeadDim; column += kPanel) {
        Accumulator d_q[kPanelTiles];
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < kKeys; k += kStep)
          multiply_shared<Element>(d_q, d_score_tile.columns_from(0, k), k_tile.columns_from(column, k), k > 0);
        wgmma_commit();
        wgmma_wait<0>();
        fence_registers(d_q);
        float* to = sums + place_of_sum(0, column);
        if (column + kPanel < kHeadDim) {
          add.template operator()<kPanelTiles>(to, d_q);
        } else {
          d_score_ring.release(step);
          add.template operator()<kLastPanelTiles>(to, d_q);
        }
      }
      steps.next();
    }
    wait_for_additions<kConvertsDq>();
    barrier_arrive(kDone, kDoneThreads);
    if constexpr (kConvertsDq) finish_d_queries(own);  // while the other warpgroups store dK and dV
  }

  // Called by the warpgroups that compute dK and dV when their products are done: results are then staged in the tiles
  // of keys and values.
  __device__ __forceinline__ void wait_for_all() const { barrier_wait(kDone, kDoneThreads); }
  static constexpr int kDone = 1, kDoneThreads = (kGradients + kSinglePass) * kWarpgroup;

  // The queries of a head are divided into parts of whole tiles. Which blocks add to a part follows from the mask, so
  // each warp, which adds 16 rows of every tile, can tell when it is the last of its number in any block to do so.
  __device__ __forceinline__ int parts() const { return (p.query_tiles + p.part_tiles - 1) / p.part_tiles; }
  __device__ __forceinline__ bool adds_to(int tile, int part) const {
    const Span queries = Steps::seeing(visible, tile);
    const int rows = p.part_tiles * kQueries;
    return queries.first < min(queries.last, (part + 1) * rows) && queries.last > part * rows;
  }
  __device__ __forceinline__ unsigned* part_counts(int key_head) const {
    return p.part_counts + (key_head * kAddingWarps + warp() % kAddingWarps) * (kQueryParts + 1);
  }

  // Waits for the key head that used the same sums before. Its blocks started before this one.
  __device__ __forceinline__ void wait_for_sums(const BlockTile& own) const {
    const int before = Steps::key_head_number(p, own) - p.sum_heads;
    if (before < 0) return;
    while (load_acquire(part_counts(before) + kQueryParts) < unsigned(parts())) {
    }
    fence_async_proxy_global();  // orders the zeros that it left before the additions
  }

  // Converts this warp's rows of the parts to which no block will add any more, while their sums are still in the L2
  // cache. Leaves zeros for a later head that uses the same sums.
  __device__ __forceinline__ void finish_d_queries(const BlockTile& own) const {
    const int part = lane();
    unsigned adding = 0;
    for (int tile = 0; tile < p.key_tiles; ++tile) adding += adds_to(tile, part);
    unsigned* counts = part_counts(Steps::key_head_number(p, own));
    bool is_last = adding == 0 && own.tile == 0;  // no block adds to it: zeros
    if (adds_to(own.tile, part)) is_last = atomicAdd(counts + part, 1u) + 1 == adding;
    const unsigned found = __ballot_sync(~0u, is_last && part < parts());
    if (found == 0) return;
    __threadfence();
    const bool shared_later = Steps::key_head_number(p, own) + p.sum_heads < p.batches * p.key_heads;
    for (unsigned rest = found; rest != 0; rest &= rest - 1)
      for (int head = 0; head < p.group; ++head) bring_into_rows(own, head, __ffs(int(rest)) - 1, shared_later);
    if (!shared_later) return;
    __syncwarp();
    if (lane() == 0) {
      __threadfence();
      atomicAdd(counts + kQueryParts, unsigned(__popc(found)));
    }
  }

  // Loads a few pieces of 16 x 32 before it stores any: a store of zeros must wait for the load of the same place.
  __device__ __forceinline__ void bring_into_rows(const BlockTile& own, int head, int part, bool clears) const {
    constexpr int kTogether = 4, kAcross = (kWidthTiles + kTogether - 1) / kTogether, kPieces = 2;
    const Outputs d_q(p.d_q, own.batch, own.head * p.group + head);
    float4* sums = reinterpret_cast<float4*>(Steps::sums_of(p, own, head)) + lane();
    const int first = part * p.part_tiles, end = min(first + p.part_tiles, p.query_tiles);
    for (int piece = first * kAcross; piece < end * kAcross; piece += kPieces) {
      const auto row = [&](int i) { return (piece + i) / kAcross * kQueries + 16 * (warp() % 4); };
      const auto tile = [&](int i) { return (piece + i) % kAcross * kTogether; };
      const auto has = [&](int i, int t) { return piece + i < end * kAcross && tile(i) + t < kWidthTiles; };
      const auto place = [&](int i, int t) { return sums + place_of_sum(row(i), 8 * (tile(i) + t)) / 4; };
      Accumulator results[kPieces][kTogether] = {};
#pragma unroll
      for (int i = 0; i < kPieces; ++i)
#pragma unroll
        for (int t = 0; t < kTogether; ++t)
          if (has(i, t)) {
            const float4 sum = __ldcg(place(i, t));
            results[i][t] = {sum.x, sum.y, sum.z, sum.w};
          }
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        if (has(i, 0)) store_results(results[i], d_q, row(i), p.queries, [&](int) { return p.scale; }, 8 * tile(i));
        if (!clears) continue;
#pragma unroll
        for (int t = 0; t < kTogether; ++t)
          if (has(i, t)) __stcg(place(i, t), make_float4(0, 0, 0, 0));
      }
    }
  }

  // Starts result = A B^T for the 64 keys from `row` on and all queries.
  __device__ __forceinline__ static void multiply_rows(Accumulator (&result)[kScoreTiles], KeyRows keys, int row,
                                                       QueryRows queries) {
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < kHeadDim; d += kStep)
      multiply_shared<Element>(result, keys.rows_from(row, d), queries.rows_from(0, d), d > 0);
    wgmma_commit();
  }
  // Starts sum += A B, over all queries.
  __device__ __forceinline__ static void add_product(Accumulator (&sum)[kWidthTiles],
                                                     const FragmentA<Element> (&left)[kQuerySteps], QueryRows right) {
    wgmma_fence();
#pragma unroll
    for (int q = 0; q < kQuerySteps; ++q)
      multiply_registers<Element>(sum, left[q], right.columns_from(0, q * kStep), true);
    wgmma_commit();
  }
  // Keeps the factors of dS, of a warp's 16 keys from `row` of the block on, in the tile of dS until unpark().
  __device__ __forceinline__ void park(const FragmentA<Element> (&fragments)[kQuerySteps], int step, int row) const {
    const auto tile = kSinglePass ? d_score_ring.acquire_empty(step) : d_score_ring.tile(step);
#pragma unroll
    for (int q = 0; q < kQuerySteps; ++q) store_a(tile, row, q * kStep, fragments[q]);
    __syncwarp();
  }
  __device__ __forceinline__ void unpark(FragmentA<Element> (&fragments)[kQuerySteps], int step, int row) const {
#pragma unroll
    for (int q = 0; q < kQuerySteps; ++q)
      load_stored_a(fragments[q], d_score_ring.tile(step), row, q * kStep);
    __syncwarp();
  }
  // Packs dS of a warp's 16 keys from `row` of the block on, and in a single pass hands it over to the dQ warpgroup.
  __device__ __forceinline__ void pack_and_commit(FragmentA<Element> (&fragments)[kQuerySteps],
                                                     const Accumulator (&d_scores)[kScoreTiles], int step,
                                                     int row) const {
    if constexpr (!kSinglePass) return pack(fragments, d_scores);
    const auto tile = d_score_ring.acquire_empty(step);
#pragma unroll
    for (int q = 0; q < kQuerySteps; ++q) {
      fragments[q] = a_from_results<Element>(d_scores, q);
      store_a(tile, row, q * kStep, fragments[q]);
    }
    d_score_ring.commit_full(step);
  }
};

}  // namespace ridgeline
