// Splits fp32 tensors into planes for the tensor cores: x = factor (high + low), where high and low are fp16 and the
// factor is one power of two per 16 rows, chosen so that their largest element lies just below the top of fp16's range.
// high + low keep at least 22 bits of every element that is not 2^17 times smaller than that one, and of smaller ones
// the bits that count beside it.
//
// Constants as in flash_common.cuh. A warp splits 16 rows.
#include "flash_common.cuh"

namespace ridgeline {

constexpr int kThreads = 128;

extern "C" __global__ void __launch_bounds__(kThreads)
flash_planes(const __grid_constant__ FlashPlanesParams p) {
  wait_for_earlier_kernels();
  const int which = blockIdx.y;
  const int rows = p.rows[which], heads = p.heads[which];
  const int blocks = (rows + 15) / 16;  // of 16 rows, per head
  const long long number = static_cast<long long>(blockIdx.x) * (kThreads / 32) + warp();
  const int head_number = int(number / blocks);
  if (head_number >= p.batches * heads) return;
  const int first = int(number % blocks) * 16;
  const int count = min(16, rows - first);
  const HeadRows<const float> head(p.from[which], head_number / heads, head_number % heads);
  const auto at = [&](int row, int column) {
    return column < kWidth ? *head.at(first + row, column) : 0.0f;
  };

  float largest = 0;
  for (int row = 0; row < count; ++row)
    for (int column = lane(); column < kWidth; column += 32) {
      const float x = fabsf(at(row, column));
      if (x < infinity()) largest = fmaxf(largest, x);
    }
  const float scale = scale_to_top(warp_max(largest));
  if (lane() == 0) p.factors[which][number] = inverse_power(scale);

  unsigned* to = reinterpret_cast<unsigned*>(p.planes[which]) +
                 (static_cast<long long>(head_number) * rows + first) * (kPlanes<Element> * kHeadDim / 2);
  for (int row = 0; row < count; ++row, to += kPlanes<Element> * kHeadDim / 2)
    for (int pair = lane(); pair < kHeadDim / 2; pair += 32) {
      const float x = at(row, 2 * pair) * scale, y = at(row, 2 * pair + 1) * scale;
      const unsigned packed = pack_fp16(x, y);
      to[pair] = packed;
      if (kPlanes<Element> == 2) to[kHeadDim / 2 + pair] = pack_rest(packed, x, y);
    }
}

}  // namespace ridgeline
