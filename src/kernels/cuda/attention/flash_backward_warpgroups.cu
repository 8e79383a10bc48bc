// Attention backward on Hopper for heads up to 128 wide: a block keeps 128 keys, 64 for each of the two warpgroups that
// compute dK and dV. See flash_backward_warpgroups.cuh for the other warpgroups and the constants.
#include "flash_backward_warpgroups.cuh"

namespace ridgeline {

using Block = BackwardBlock<128, 4 * kGradients, true>;

// Whether S and dP have registers of their own and are computed at the same time. In wider heads dK and dV of 64 keys
// leave no room for that: dP replaces S, of which only P in 16 bits is kept. A score function needs registers as well.
constexpr bool kSideBySide = kHeadDim <= (kFunction ? 80 : 96);

// Unpacks tile `n` of results.
__device__ __forceinline__ Accumulator unpacked(const FragmentA<Element> (&fragments)[kQuerySteps], int n) {
  Accumulator results;
#pragma unroll
  for (int i = 0; i < 4; ++i) results.v[i] = unpack<Element>(fragments[n / 2].r[0][n % 2 * 2 + i / 2], i % 2);
  return results;
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_backward_warpgroups(const __grid_constant__ FlashBackwardParams p) {
  wait_for_earlier_kernels();
  const Block block(p);
  if (threadIdx.x == 0) block.set_up();
  __syncthreads();
  const int warpgroup = warpgroup_number();
  if (warpgroup >= kGradients) {
    block.serve(warpgroup);
    return;
  }

  increase_registers<kGradientRegisters>();
  const int row = 64 * warpgroup, warp_row = 16 * warp();
  int step = 0;
  block.for_each_tile([&](const BlockTile& tile, int round) {
    Accumulator d_k[1][kWidthTiles] = {}, d_v[1][kWidthTiles] = {};
    fence_registers(d_k[0]);
    fence_registers(d_v[0]);
    const Block::KeyRows k_tile = block.k_place.wait_full(round),
                         v_tile = block.v_place.tile(round);
    {
      const BlockTile own = kWholeHeads ? tile : block.block_tile();
      const int key = own.tile * Block::kKeyCount + warp_row;
      Block::Steps steps(p, block.visible, own);
      if (steps.count > 0) block.v_place.wait_full(round);
      for (const int begin = step, end = step + steps.count; step < end; ++step) {
        FragmentA<Element> weights[kQuerySteps], d_scores[kQuerySteps];
        ScoreChain<kScoreTiles> chain;
        FirstScore first = {own.batch, steps.head, steps.tile * kQueries, key};
        // Otherwise the compiler keeps values of the keys from step to step, more than registers hold.
        if constexpr (kSkips) asm volatile("" : "+r"(first.key));
        const auto add_up = [&](const Accumulator(&d_values)[kScoreTiles]) {
          if constexpr (kOperandSums > 0) {
            FirstScore again = first;
            again.query = __shfl_sync(~0u, first.query, 0);  // otherwise all coordinates are kept since weigh()
            add_operand_gradients(d_values, p, [&](int n, int i) { return again.place(p, n, i); });
          }
        };
        const auto q_tile = block.q_ring.wait_full(step);
        const auto weigh_tile = [&](Accumulator(&scores)[1][kScoreTiles]) {
          fence_registers(scores[0]);
          weigh(scores, chain, p, block.visible, first, block.shifts(step));
        };
        Accumulator scores[1][kScoreTiles];
        Block::multiply_rows(scores[0], k_tile, row, q_tile);
        wgmma_wait<1>();  // dK of the step before, and the products before it
        if (step > begin) block.q_ring.release(step - 1);
        if constexpr (kSideBySide) {
          if (step > begin) block.d_out_ring.release(step - 1);
          Accumulator d_weights[kScoreTiles];
          const auto d_out_tile = block.d_out_ring.wait_full(step);
          Block::multiply_rows(d_weights, v_tile, row, d_out_tile);
          wgmma_wait<1>();
          weigh_tile(scores);
          wgmma_wait<0>();
          fence_registers(d_weights);
          differentiate(d_weights, block.deltas(step),
                        [&](int n) { return chain.times(n, scores[0][n]); });
          add_up(d_weights);
          pack(weights, scores[0]);
          Block::add_product(d_v[0], weights, d_out_tile);
          block.pack_and_commit(d_scores, d_weights, step, warp_row);
        } else {
          wgmma_wait<0>();
          weigh_tile(scores);
          pack(weights, scores[0]);
          if constexpr (kChained) {
#pragma unroll
            for (int n = 0; n < kScoreTiles; ++n) scores[0][n] = chain.times(n, scores[0][n]);
            pack(d_scores, scores[0]);
            block.park(d_scores, step, warp_row);
          }
          const auto d_out_tile = block.d_out_ring.wait_full(step);
          Block::multiply_rows(scores[0], v_tile, row, d_out_tile);
          Block::add_product(d_v[0], weights, d_out_tile);
          wgmma_wait<0>();
          fence_registers(scores[0]);
          if constexpr (kChained) block.unpark(d_scores, step, warp_row);
          differentiate(scores[0], block.deltas(step),
                        [&](int n) { return unpacked(kChained ? d_scores : weights, n); });
          add_up(scores[0]);
          block.d_out_ring.release(step);
          block.pack_and_commit(d_scores, scores[0], step, warp_row);
        }
        Block::add_product(d_k[0], d_scores, q_tile);
        steps.next();
      }
    }
    wgmma_wait<0>();
    fence_registers(d_k[0]);
    fence_registers(d_v[0]);

    const BlockTile own = kWholeHeads ? tile : block.block_tile();
    const int first_key = own.tile * Block::kKeyCount;
    const Outputs d_k_out(p.d_k, own.batch, own.head), d_v_out(p.d_v, own.batch, own.head);
    if constexpr (kWholeHeads) {
      block.q_ring.release(step - 1);
      if constexpr (kSideBySide) block.d_out_ring.release(step - 1);
      block.k_place.release(round);
      block.v_place.release(round);
      store_results(d_k[0], d_k_out, first_key + warp_row, p.keys, [&](int) { return p.scale; });
      store_results(d_v[0], d_v_out, first_key + warp_row, p.keys, [](int) { return 1.0f; });
    } else {
      // Staged in shared memory, so that rows are written 16 bytes at a time.
      block.wait_for_all();
      put_results(d_k, k_tile, d_k_out, first_key, p.keys, warp_row, 0,
                  [&](int, int) { return p.scale; });
      put_results(d_v, v_tile, d_v_out, first_key, p.keys, warp_row, 0,
                  [](int, int) { return 1.0f; });
      __syncwarp();
      store_rows<16>(k_tile, d_k_out, first_key, p.keys, warp_row);
      store_rows<16>(v_tile, d_v_out, first_key, p.keys, warp_row);
    }
  });
}

}  // namespace ridgeline
