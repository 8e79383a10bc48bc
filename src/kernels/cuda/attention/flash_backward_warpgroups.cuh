// Shared by the Hopper backward kernels that keep keys. A block keeps a tile of keys and loops over the queries that
// see them. Its warpgroups are specialised:
//
//   gradients  two warpgroups compute dK and dV; how they share that work differs between the kernels
//   dQ         one computes dQ = dS K from the dS that they hand over, and adds it to sums shared by all blocks, which
//              flash_backward_rows.cu clears before and converts to rows after
//   loads      a producer thread issues TMA copies as far ahead as the rings have free stages; where gradients are
//              added up along diagonals (flash_diagonal_sums.cuh), two other warps of its warpgroup do that
//
// So additions and loads delay no product, and a warpgroup that waits leaves the tensor cores to the others. In the
// first of two passes dQ is not computed; flash_backward_queries_warpgroups.cu does that.
//
// Where heads alone keep all multiprocessors busy, a block processes whole heads, one after the other: all tiles of
// keys of each. Then no other block adds to its dQ: it stores the first part of each sum, adds the others, and writes
// the total as rows together with the last one, so that no kernels clear and convert.
//
// As in flash_backward_keys.cu, scores are computed transposed, keys x queries, so that P and dS are left operands in
// registers for dV = P^T dO and dK = dS^T Q.
//
// Constants beside those of flash_common.cuh: STAGES (tiles of queries, and as many of dO, in shared memory),
// SINGLE_PASS (dQ is computed as well), WHOLE_HEADS (a block processes every gridDim.x-th head).
#pragma once

#include "flash_chain.cuh"
#include "flash_common.cuh"
#include "flash_diagonal_sums.cuh"
#include "flash_operand_sums.cuh"
#include "flash_query_sums.cuh"
#include "tensor_map.cuh"

namespace ridgeline {

constexpr int kQueries = 64, kStages = STAGES;
constexpr bool kSinglePass = SINGLE_PASS, kWholeHeads = WHOLE_HEADS;
static_assert(!kWholeHeads || (kSinglePass && !kSkips && kDiagonals == 0));
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
    start = kMasked || kWholeHeads || tiles == 0 ? begin : begin + own.tile % tiles;
    tile = start, head = own.head * p.group;
  }
  __device__ __forceinline__ void next() {
    if (++tile == end) tile = begin;
    if (tile == start) ++head;
  }
  __device__ __forceinline__ int head_number(const FlashBackwardParams& p, const BlockTile& own) const {
    return own.batch * p.heads + head;
  }
  // The place of the tile's first query in row_shift and delta.
  __device__ __forceinline__ long long row(const FlashBackwardParams& p, const BlockTile& own) const {
    return static_cast<long long>(head_number(p, own)) * p.padded_queries + tile * kQueries;
  }
  // The tile's sums of dQ. A block of whole heads has those of one group, which its next head uses again.
  __device__ __forceinline__ float* sums(const FlashBackwardParams& p, const BlockTile& own) const {
    const int in_group = head - own.head * p.group;
    const long long number =
        kWholeHeads ? static_cast<long long>(blockIdx.x) * p.group + in_group : head_number(p, own);
    return p.d_q_sum + (number * p.query_tiles + tile) * (kQueries * kHeadDim);
  }
  // Whether the queries of the step see any of another tile of keys.
  __device__ __forceinline__ bool see(const FlashBackwardParams& p, const Visible& visible,
                                      int key_tile) const {
    if (key_tile < 0 || key_tile >= p.key_tiles) return false;
    const Span queries = seeing(visible, key_tile);
    return queries.first < (tile + 1) * kQueries && queries.last > tile * kQueries;
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
    k_place.set_up(1, 4 * kGradients + (kWholeHeads ? 4 : 0));
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
  // Calls work(tile, round) for each tile of keys of this block.
  template <class Work>
  __device__ __forceinline__ void for_each_tile(Work work) const {
    if constexpr (kWholeHeads) {
      int round = 0;
      for (int number = blockIdx.x; number < p.batches * p.key_heads; number += gridDim.x)
        for (int tile = 0; tile < p.key_tiles; ++tile)
          work(BlockTile(tile, number / p.key_heads, number % p.key_heads), round++);
    } else {
      work(block_tile(), 0);
    }
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
    int step = 0;
    for_each_tile([&](const BlockTile& own, int round) {
      Steps steps(p, visible, own);
      const auto load_keys = [&](const KeyPlace& place, const TensorMap& map) {
        place.fill(round, KeyRows::kBytes, [&](KeyRows tile, MBarrier arrived) {
          copy_tile(tile, map, {own.tile * kKeys, own.head, own.batch}, arrived, policy);
        });
      };
      const auto load_queries = [&](const QueryRing& ring, const TensorMap& map, const float* from,
                                    unsigned to) {
        constexpr int kNumbersBytes = 4 * kQueries;
        ring.fill(step, QueryRows::kBytes + kNumbersBytes, [&](QueryRows tile, MBarrier arrived) {
          copy_tile(tile, map, {steps.tile * kQueries, steps.head, own.batch}, arrived, policy);
          copy_bytes(to, from + steps.row(p, own), kNumbersBytes, arrived);
        });
      };
      const auto load_step = [&](auto between) {
        load_queries(q_ring, p.q_map, p.row_shift, shifts(step));
        between();
        load_queries(d_out_ring, p.d_out_map, p.delta, deltas(step));
        steps.next();
        ++step;
      };
      const int end = step + steps.count;
      if constexpr (kWholeHeads) {
        // As many queries as the rings hold, while the tile before occupies the place of the keys.
        for (const int ahead = min(end, step + kStages); step < ahead;) load_step([] {});
        load_keys(k_place, p.k_map);
        load_keys(v_place, p.v_map);
      } else {
        load_keys(k_place, p.k_map);
        if (step < end) load_step([&] { load_keys(v_place, p.v_map); });
      }
      while (step < end) load_step([] {});
    });
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
    int step = 0;
    for_each_tile([&](const BlockTile& own, int round) {
      const KeyRows k_tile = k_place.wait_full(round);
      Steps steps(p, visible, own);
      for (const int end = step + steps.count; step < end; ++step) {
        float* sums = steps.sums(p, own) + place_of_sum(warp_row, 0);
        // Of the tiles of keys that the queries see.
        const bool is_first = kWholeHeads && !steps.see(p, visible, own.tile - 1);
        const bool is_last = kWholeHeads && !steps.see(p, visible, own.tile + 1);
        // Computes a panel, kTiles accumulators of which are in the width.
        const auto compute = [&]<int kTiles>(int column) {
          float* to = sums + place_of_sum(0, column);
          Accumulator d_q[kPanelTiles];
          if constexpr (kWholeHeads) load_sums<kTiles>(d_q, to, is_last && !is_first);
          if (column == 0) d_score_ring.wait_full(step);
          const auto d_score_tile = d_score_ring.tile(step);
          wgmma_fence();
#pragma unroll
          for (int k = 0; k < kKeys; k += kStep)
            multiply_shared<Element>(d_q, d_score_tile.columns_from(0, k),
                                     k_tile.columns_from(column, k), kWholeHeads || k > 0);
          wgmma_commit();
          wgmma_wait<0>();
          fence_registers(d_q);
          if (column + kPanel >= kHeadDim) d_score_ring.release(step);
          if (is_last)
            store_results(d_q, Outputs(p.d_q, own.batch, steps.head), steps.tile * kQueries + warp_row, p.queries,
                          [&](int) { return p.scale; }, column);
          else if constexpr (kStaged)
            add_shared<kTiles>(to, d_q, staging + warp() % 4 * kWarpSums, is_first);
          else
            add_row<kTiles>(to, d_q);
        };
        constexpr int kLastPanel = (kHeadDim - 1) / kPanel * kPanel;
#pragma unroll 1
        for (int column = 0; column < kLastPanel; column += kPanel)
          compute.template operator()<kPanelTiles>(column);
        compute.template operator()<kLastPanelTiles>(kLastPanel);
        steps.next();
      }
      if constexpr (kWholeHeads) k_place.release(round);
      wait_for_additions<kWholeHeads>();
    });
    if constexpr (!kWholeHeads) barrier_arrive(kDone, kDoneThreads);
  }

  // Called by the warpgroups that compute dK and dV when their products are done: results are then staged in the tiles
  // of keys and values.
  __device__ __forceinline__ void wait_for_all() const { barrier_wait(kDone, kDoneThreads); }
  static constexpr int kDone = 1, kDoneThreads = (kGradients + kSinglePass) * kWarpgroup;

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
