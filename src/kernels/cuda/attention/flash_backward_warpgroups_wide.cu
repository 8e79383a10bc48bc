// Attention backward on Hopper for heads wider than 128, where no warpgroup has registers for both dK and dV of 64 keys,
// and for narrower ones that are few, as blocks of 64 keys are more than those of 128. Each of two warpgroups computes
// one of dK and dV, for the same keys:
//
//   dV    S^T = K Q^T, P = exp(S - shift), dV += P^T dO
//   dK    dP^T = V dO^T, dS = P (dP - delta), dK += dS^T Q
//
// P, times the factors of a score function's gradient, passes from one to the other through shared memory, so that no
// product is computed twice. See flash_backward_warpgroups.cuh for the other warpgroups and the constants.
#include "flash_backward_warpgroups.cuh"

namespace ridgeline {

using Block = BackwardBlock<64, 4, false>;
static_assert(!kWholeHeads);

// Accumulators, keys x queries, that the threads of one warpgroup pass to those of another.
struct Weights {
  static constexpr int kBytes = 4 * Block::kKeyCount * kQueries;
  unsigned address;

  __device__ __forceinline__ unsigned at(int n) const {
    return address + 16 * (n * kWarpgroup + threadIdx.x % kWarpgroup);
  }
};

extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_backward_warpgroups_wide(const __grid_constant__ FlashBackwardParams p) {
  wait_for_earlier_kernels();
  const Block block(p);
  const TileRing<Weights, 1, true> weight_place{block.end, block.end + Weights::kBytes};
  if (threadIdx.x == 0) {
    block.set_up();
    weight_place.set_up(4 * weight_place.kLanes, 4);
  }
  __syncthreads();
  const int warpgroup = warpgroup_number();
  if (warpgroup >= kGradients) {
    block.serve(warpgroup);
    return;
  }

  increase_registers<kGradientRegisters>();
  const bool is_d_v = warpgroup == 0;
  const int warp_row = 16 * (warp() % 4);
  Accumulator sum[1][kWidthTiles] = {};  // dV or dK
  fence_registers(sum[0]);
  FragmentA<Element> left[kQuerySteps];
  if (is_d_v) {
    const BlockTile own = block.block_tile();
    const int key = own.tile * Block::kKeyCount + warp_row;
    const auto k_tile = block.k_place.wait_full(0);
    Block::Steps steps(p, block.visible, own);
    for (int step = 0; step < steps.count; ++step) {
      Accumulator weights[1][kScoreTiles];
      Block::multiply_rows(weights[0], k_tile, 0, block.q_ring.wait_full(step));
      wgmma_wait<1>();  // dV of the step before
      if (step > 0) block.d_out_ring.release(step - 1);
      wgmma_wait<0>();
      fence_registers(weights[0]);
      ScoreChain<kScoreTiles> chain;
      weigh(weights, chain, p, block.visible, {own.batch, steps.head, steps.tile * kQueries, key}, block.shifts(step));
      block.q_ring.release(step);
      const Weights to = weight_place.acquire_empty(step);
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) store_accumulator(to.at(n), chain.times(n, weights[0][n]));
      weight_place.commit_full(step);
      pack(left, weights[0]);
      Block::add_product(sum[0], left, block.d_out_ring.wait_full(step));
      steps.next();
    }
  } else {
    const int steps = Block::Steps(p, block.visible, block.block_tile()).count;
    for (int step = 0; step < steps; ++step) {
      Accumulator d_scores[kScoreTiles];
      Block::multiply_rows(d_scores, block.v_place.wait_full(0), 0, block.d_out_ring.wait_full(step));
      wgmma_wait<1>();  // dK of the step before
      if (step > 0) block.q_ring.release(step - 1);
      wgmma_wait<0>();
      fence_registers(d_scores);
      const Weights from = weight_place.wait_full(step);
      differentiate(d_scores, block.deltas(step), [&](int n) { return load_accumulator(from.at(n)); });
      weight_place.release(step);
      block.d_out_ring.release(step);
      block.pack_and_commit(left, d_scores, step, warp_row);
      Block::add_product(sum[0], left, block.q_ring.wait_full(step));
    }
  }
  wgmma_wait<0>();
  fence_registers(sum[0]);

  // Staged in shared memory, so that rows are written 16 bytes at a time.
  block.wait_for_all();
  const BlockTile own = block.block_tile();
  const int first_key = own.tile * Block::kKeyCount;
  const auto place = is_d_v ? block.v_place.tile(0) : block.k_place.tile(0);
  const Outputs out(is_d_v ? p.d_v : p.d_k, own.batch, own.head);
  const float scale = is_d_v ? 1 : p.scale;
  put_results(sum, place, out, first_key, p.keys, warp_row, 0, [&](int, int) { return scale; });
  __syncwarp();
  store_rows<16>(place, out, first_key, p.keys, warp_row);
}

}  // namespace ridgeline
