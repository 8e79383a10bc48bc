// Attention forward on Hopper: a block keeps 64 queries for each of its warpgroups and walks over the keys. While a
// tile of scores goes through the softmax, the product of the weights before it with their values runs.
//
// Constants beside those of flash_common.cuh: ROWS (queries a block), KEYS (a step), BLOCKS (a multiprocessor should
// hold).
#include "flash_softmax.cuh"
#include "warpgroup.cuh"

namespace ridgeline {

constexpr int kRows = ROWS, kKeys = KEYS;
constexpr int kThreads = 2 * kRows;
constexpr int kScoreTiles = kKeys / 8, kOutputTiles = kHeadDim / 8, kKeySteps = kKeys / kStep;

using QueryRows = Panels<kRows, kHeadDim>;
using KeyRows = Panels<kKeys, kHeadDim>;

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS)
flash_forward_warpgroups(const __grid_constant__ FlashForwardParams p) {
  wait_for_earlier_kernels();
  const Work work(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
  const int first_query = work.tile * kRows;
  const int warp_row = 16 * warp();
  const int key_head = work.head / p.group;
  const Inputs keys(p.k, work.batch, key_head);
  const Inputs values(p.v, work.batch, key_head);
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};

  // The keys that any query of this block sees.
  const int last_query = min(first_query + kRows, p.queries) - 1;
  const int begin = visible.keys_of(first_query).first / kKeys * kKeys;
  const int end = visible.keys_of(last_query).last;
  const int steps = end > begin ? (end - begin + kKeys - 1) / kKeys : 0;

  const QueryRows q_tile{shared_address()};
  const unsigned ring = q_tile.address + QueryRows::kBytes;
  const auto k_tile = [&](int step) { return KeyRows{ring + (step & 1) * KeyRows::kBytes}; };
  const auto v_tile = [&](int step) { return KeyRows{ring + (2 + (step & 1)) * KeyRows::kBytes}; };
  const auto load_keys = [&](int step) {
    if (step < steps) load_rows<kKeys, kThreads>(k_tile(step), keys, begin + step * kKeys, p.keys);
  };
  const auto load_values = [&](int step) {
    if (step < steps) load_rows<kKeys, kThreads>(v_tile(step), values, begin + step * kKeys, p.keys);
  };
  // What was loaded for this step has arrived, and everybody is done with the step before the last.
  const auto arrive = [] {
    wait_for_copies<0>();
    publish_shared();
    __syncthreads();
  };

  load_rows<kRows, kThreads>(q_tile, Inputs(p.q, work.batch, work.head), first_query, p.queries);
  load_keys(0);
  commit_copies();

  Accumulator output[1][kOutputTiles] = {}, scores[1][kScoreTiles];
  FragmentA<Element> weights[kKeySteps];
  RunningSoftmax<1> softmax([&](int) { return p.scale_log2; });
  const auto multiply_keys = [&](int step) {
    const int row = warp() / 4 * 64;
#pragma unroll
    for (int d = 0; d < kHeadDim; d += kStep)
      multiply_shared<Element, false, false>(scores[0], q_tile.rows_from(row, d), k_tile(step).rows_from(0, d), d > 0);
    end_products();
  };
  const auto multiply_values = [&](int step) {
#pragma unroll
    for (int k = 0; k < kKeySteps; ++k)
      multiply_registers<Element, true>(output[0], weights[k], v_tile(step).columns_from(0, k * kStep), true);
    end_products();
  };
  // Scores of a step become weights; true where the outputs so far must be rescaled.
  const auto weigh = [&](int step) {
    settle(scores[0]);
    const int key = begin + step * kKeys;
    const int warp_query = first_query + warp_row;
    apply_function(scores, p, work, warp_query, key, [](int) { return 1.0f; });
    const Span common = {visible.keys_of(warp_query + 15).first, visible.keys_of(warp_query).last};
    if (!common.covers(key, key + kKeys))
      hide(scores, warp_query, key, [&](int query) { return visible.keys_of(query); });
    const bool raised = softmax.raise(scores);
    softmax.weigh(scores);
    return raised;
  };
  const auto pack_weights = [&] {
#pragma unroll
    for (int k = 0; k < kKeySteps; ++k) weights[k] = a_from_results<Element>(scores[0], k);
  };

  arrive();
  if (steps > 0) {
    begin_products();
    multiply_keys(0);
    load_keys(1);
    load_values(0);
    commit_copies();
    wait_for_products<0>();
    weigh(0);
    pack_weights();
    for (int step = 1; step < steps; ++step) {
      arrive();
      begin_products();
      multiply_keys(step);
      multiply_values(step - 1);
      load_keys(step + 1);
      load_values(step);
      commit_copies();
      wait_for_products<1>();
      const bool raised = weigh(step);
      wait_for_products<0>();
      settle(output[0]);
      if (raised) softmax.rescale(output);
      pack_weights();
    }
    arrive();
    begin_products();
    multiply_values(steps - 1);
    wait_for_products<0>();
    settle(output[0]);
  }
  finish_rows(p, softmax, output, q_tile, kRows, warp_row);
}

}  // namespace ridgeline
