// The kernels before and after the tiles of the backward. The first computes, for each query, sum(dO * O) and the
// log-sum-exp in base 2, and clears sums; the last converts dQ to rows.
//
// Constants beside those of flash_common.cuh: QUERIES (of a tile of the single-pass kernel), CLEARS (sums of dQ are to
// be cleared), SUMS (tensors of operand sums that are as well).
#include "flash_common.cuh"
#include "flash_query_sums.cuh"

namespace ridgeline {

constexpr int kQueries = QUERIES;
constexpr int kThreads = 256;
// Lanes that share a row, 16 bytes each.
constexpr int kPack = 16 / sizeof(Result);
constexpr int lanes_per_row() {
  int lanes = 1;
  while (lanes < 32 && lanes * kPack < kWidth) lanes *= 2;
  return lanes;
}
constexpr int kLanes = lanes_per_row();

extern "C" __global__ void __launch_bounds__(kThreads)
flash_backward_begin(const __grid_constant__ FlashBackwardParams p) {
  wait_for_earlier_kernels();
  const long long thread = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  for (int k = 0; k < SUMS; ++k)
    for (long long i = thread; i < p.sums[k].count; i += static_cast<long long>(gridDim.x) * kThreads)
      p.sums[k].data[i] = 0;
  const long long row = thread / kLanes;
  const int part = threadIdx.x % kLanes;
  const long long number = row / p.padded_queries;  // of the head
  const int query = int(row % p.padded_queries);
  if (number >= static_cast<long long>(p.batches) * p.heads) return;

  float delta = 0;
  if (query < p.queries) {
    const int batch = int(number / p.heads), head = int(number % p.heads);
    const Outputs out(p.out, batch, head), d_out(p.d_out, batch, head);
    const Result* x = out.at(query);
    const Result* y = d_out.at(query);
    for (int column = part * kPack; column < kWidth; column += kLanes * kPack) {
      if constexpr (kAligned) {
        uint4 a = *reinterpret_cast<const uint4*>(x + column), b = *reinterpret_cast<const uint4*>(y + column);
        const Result *u = reinterpret_cast<Result*>(&a), *v = reinterpret_cast<Result*>(&b);
#pragma unroll
        for (int i = 0; i < kPack; ++i) delta += widen(u[i]) * widen(v[i]);
      } else {
        for (int c = column; c < min(column + kPack, kWidth); ++c)
          delta += widen(x[c * out.column]) * widen(y[c * d_out.column]);
      }
    }
  }
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) delta += __shfl_xor_sync(~0u, delta, offset);
  if (part == 0) {
    // A query that sees nothing, or beyond the last one, gets a shift for which every weight is 0.
    const float sum = query < p.queries ? p.log_sum_exp[number * p.queries + query] : -infinity();
    p.row_shift[row] = sum == -infinity() ? infinity() : sum * kLog2e;
    p.delta[row] = delta;
  }
  if (CLEARS)
    for (int i = part * 4; i < kHeadDim; i += kLanes * 4)
      *reinterpret_cast<float4*>(p.d_q_sum + row * kHeadDim + i) = make_float4(0, 0, 0, 0);
}

// One thread converts eight columns of rows r and r + 8 of a block of 16 rows, which four lanes have added up.
extern "C" __global__ void __launch_bounds__(kThreads)
flash_backward_end(const __grid_constant__ FlashBackwardParams p) {
  wait_for_earlier_kernels();
  constexpr int kTileThreads = kQueries * kHeadDim / 16;
  const long long place = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  const long long tile = place / kTileThreads;
  const int within = int(place % kTileThreads);
  const int batch = int(tile / p.query_tiles / p.heads), head = int(tile / p.query_tiles % p.heads);
  if (batch >= p.batches) return;
  const int first = int(tile % p.query_tiles) * kQueries + within / 8 / kSumTiles * 16 + within % 8;
  const int column = within / 8 % kSumTiles * 8;
  float rows[2][8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 sum = reinterpret_cast<const float4*>(p.d_q_sum)[4 * place + i];
    rows[0][2 * i] = sum.x * p.scale, rows[0][2 * i + 1] = sum.y * p.scale;
    rows[1][2 * i] = sum.z * p.scale, rows[1][2 * i + 1] = sum.w * p.scale;
  }
  const Outputs d_q(p.d_q, batch, head);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int query = first + 8 * i;
    if (query >= p.queries) break;
    if (kAligned && column + 8 <= kWidth) {
      __align__(16) Result packed[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) packed[c] = Narrow<Result>::from(rows[i][c]);
      uint4* to = reinterpret_cast<uint4*>(d_q.at(query, column));
#pragma unroll
      for (int c = 0; c < 8 / kPack; ++c) to[c] = reinterpret_cast<const uint4*>(packed)[c];
    } else {
#pragma unroll
      for (int c = 0; c < 8; ++c)
        if (column + c < kWidth) *d_q.at(query, column + c) = Narrow<Result>::from(rows[i][c]);
    }
  }
}

}  // namespace ridgeline
