// Gradients of operands that are read along diagonals, such as a relative bias, if each is a constant times the
// gradient of the score function: two warps add up a block's dS along diagonals, then to sums shared by all blocks.
//
// A warp has 64 keys of a tile of 64 queries, each half of its lanes 32 of them. A lane adds up blocks of eight keys
// and four queries, whose 11 diagonals are in registers, and moves down a diagonal of blocks; where it leaves the tile,
// it starts over on the other side.
//
// Constants from the host, if there are such operands, as lists separated by commas: DIAGONAL_GRADIENTS, expressions of
// `d_result`, and DIAGONAL_AXES, the axes of each. Their sums follow those of flash_operand_sums.cuh in p.sums.
#pragma once

#include "flash_operand_sums.cuh"
#include "warpgroup.cuh"

namespace ridgeline {

constexpr int kDiagonalWarps = 2;

#ifdef DIAGONAL_GRADIENTS
constexpr unsigned kDiagonalAxes[] = {DIAGONAL_AXES};
constexpr int kDiagonals = sizeof kDiagonalAxes / sizeof kDiagonalAxes[0];

struct DiagonalGradients {
  float v[kDiagonals];
};
__device__ __forceinline__ DiagonalGradients diagonal_gradients(float d_result) { return {DIAGONAL_GRADIENTS}; }

// Adds to the sums of each operand at `place`, where key - query is place - (queries - 1).
template <int kNumber = 0>
__device__ __forceinline__ void add_to_diagonal(const FlashBackwardParams& p, int batch, int head, int place,
                                                float d_result) {
  constexpr unsigned kAxes = kDiagonalAxes[kNumber];
  const int heads = kAxes & along::heads ? p.heads : 1, length = p.queries + p.keys - 1;
  const int row = (kAxes & along::batches ? batch * heads : 0) + (kAxes & along::heads ? head : 0);
  float* to = p.sums[kOperandSums + kNumber].data + static_cast<long long>(row) * length + place;
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to), "f"(diagonal_gradients(d_result).v[kNumber])
               : "memory");
  if constexpr (kNumber + 1 < kDiagonals) add_to_diagonal<kNumber + 1>(p, batch, head, place, d_result);
}
#else
constexpr int kDiagonals = 0;
__device__ __forceinline__ void add_to_diagonal(const FlashBackwardParams&, int, int, int, float) {}
#endif

// The sums of one warp along the 127 diagonals of its 64 x 64 scores. Its shared memory has 96 floats for each half of
// the lanes; number n is the sum where key - query, within the half's 32 keys and 64 queries, is n - 63.
struct DiagonalSums {
  static constexpr int kKeys = 64, kHalfKeys = kKeys / 2, kHalfSums = 64 + kHalfKeys;
  static constexpr int kBlockKeys = 8, kBlockQueries = 4, kAcross = 64 / kBlockQueries;
  static constexpr int kBytes = 2 * kHalfSums * 4;
  unsigned address;
  float v[kBlockKeys + kBlockQueries];  // of a block; number n where key - query is n - 3, and a 0

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (float& sum : v) sum = 0;
  }
  // Adds the scores of eight keys and four queries from `first` on.
  __device__ __forceinline__ void add_block(unsigned first) {
#pragma unroll
    for (int i = 0; i < kBlockKeys; ++i) {
      unsigned pairs[2];
      load_words(pairs[0], pairs[1], (first ^ 16 * i) + 2 * kPanel * i);
#pragma unroll
      for (int k = 0; k < kBlockQueries; ++k) v[kBlockQueries - 1 + i - k] += unpack<Element>(pairs[k / 2], k % 2);
    }
  }
  // Adds the sums of a block to those of its half from 4 `number` on, in thirds, since adjacent blocks share some.
  __device__ __forceinline__ void put(int number, bool wanted) const {
#pragma unroll
    for (int third = 0; third < 3; ++third) {
      const unsigned at = address + 4 * (lane() / kAcross * kHalfSums + 4 * (number + third));
      if (wanted) {
        Accumulator sum = load_accumulator(at);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum.v[i] += v[4 * third + i];
        store_accumulator(at, sum);
      }
      __syncwarp();
    }
  }

  // Adds up 64 rows of a tile; calls done() when the tile is no longer read.
  template <class Tile, class Done>
  __device__ __forceinline__ void add_up(Tile tile, int first_row, Done done) {
    for (int at = lane(); at < 2 * kHalfSums / 4; at += 32) store_accumulator(address + 16 * at, {});
    __syncwarp();
    clear();
    constexpr int kSteps = kHalfKeys / kBlockKeys, kRight = kBlockKeys / kBlockQueries;
    const int begin = lane() % kAcross, row = first_row + lane() / kAcross * kHalfKeys;
    const int number = kAcross - 1 - begin;  // of the diagonal of blocks
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
      const int across = begin + step * kRight;
      const bool starts_over = across >= kAcross && across < kAcross + kRight;
      put(number, starts_over);
      if (starts_over) clear();
      add_block(tile.at(row + step * kBlockKeys, across % kAcross * kBlockQueries));
    }
    done();
    put(begin + (kSteps - 1) * kRight < kAcross ? number : number + kAcross, true);
  }
  // Returns the sum over both halves where key - query, within the warp's 64 keys and queries, is place - 63.
  __device__ __forceinline__ float sum(int place) const {
    float total = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int number = place - half * kHalfKeys;
      if (number >= 0 && number < kHalfSums) total += load_float(address + 4 * (half * kHalfSums + number));
    }
    return total;
  }
};

}  // namespace ridgeline
