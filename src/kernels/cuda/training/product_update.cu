// One AdamW step over parameters whose gradients are products of two matrices. Gradients are computed tile by tile,
// rounded to 16 bits as a separate product would do, and never reach memory; parameters and moments are read and
// written while the next tile is multiplied.
//
// Constants: those of product_warpgroups.cuh and adamw.cuh, TOGETHER (packs that a thread updates at once), AHEAD (how
// many times as many are in flight), COPIED (1: parameters are also written as ELEMENT).
#include "adamw.cuh"
#include "elements.cuh"
#include "product_warpgroups.cuh"

namespace ridgeline {

// The epilogue. Threads take packs of four columns, kTogether at a time, with parameters and moments of kAhead times as
// many in flight. It does not branch, so that these are computed concurrently: packs beyond the ends load what lies at
// the ends and are not stored.
struct UpdateEpilogue {
  static constexpr bool kAlongRows = true;  // whole rows of parameters are accessed at a time, in fewer pages of DRAM
  static constexpr int kPack = 4, kPacksOfRow = kTileColumns / kPack, kWorkers = 32 * kEpilogueWarps;
  static constexpr int kTogether = TOGETHER, kAhead = AHEAD;
  struct Numbers {
    float4 parameter, first_moment, second_moment;
  };
  // The place of a pack in the tile; add() moves it on by a number of packs.
  struct Place {
    int row, pack;
    __device__ __forceinline__ explicit Place(int number) : row(number / kPacksOfRow), pack(number % kPacksOfRow) {}
    __device__ __forceinline__ void add(int packs) {
      row += packs / kPacksOfRow, pack += packs % kPacksOfRow;
      if (pack >= kPacksOfRow) pack -= kPacksOfRow, ++row;
    }
  };

  const ProductUpdateParams& p;
  const Factors factors;
  int last_row, last_column, stride;  // in the tile; of a row of parameters
  float *parameter, *first_moment, *second_moment;
  ELEMENT* copy;
  Numbers numbers[kAhead][kTogether];
  Place next{0};

  __device__ __forceinline__ explicit UpdateEpilogue(const ProductUpdateParams& params)
      : p(params), factors(factors_of(p.numbers)) {}

  __device__ __forceinline__ void begin(int product, int row, int column) {
    const ProductProblem& of = p.products[product];
    last_row = min(of.rows - row, kTileRows) - 1, last_column = min(of.columns - column, kTileColumns) - kPack;
    stride = of.columns;
    const auto& tensor = p.tensors[product];
    const long long tile = static_cast<long long>(row) * stride + column;
    parameter = static_cast<float*>(tensor.parameter) + tile;
    first_moment = tensor.first_moment + tile;
    second_moment = tensor.second_moment + tile;
    copy = static_cast<ELEMENT*>(tensor.copy) + tile;
    next = Place(threadIdx.x - 32 * kConsumerWarps);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load(numbers[i]);
  }

  __device__ __forceinline__ void run(const char* sums) {
    if (factors.skips()) return;
    Place at(threadIdx.x - 32 * kConsumerWarps);
    while (at.row <= last_row)
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        Numbers now[kTogether];
#pragma unroll
        for (int k = 0; k < kTogether; ++k) now[k] = numbers[i][k];
        load(numbers[i]);
        update(now, sums, at);
      }
  }

 private:
  __device__ __forceinline__ void load(Numbers (&to)[kTogether]) {
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int at = min(next.row, last_row) * stride + min(next.pack * kPack, last_column);
      to[k] = {__ldcg(reinterpret_cast<const float4*>(parameter + at)),
               __ldcg(reinterpret_cast<const float4*>(first_moment + at)),
               __ldcg(reinterpret_cast<const float4*>(second_moment + at))};
      next.add(kWorkers);
    }
  }
  __device__ __forceinline__ void update(Numbers (&of)[kTogether], const char* sums, Place& at) const {
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      auto& [x, m, v] = of[k];
      const int row = min(at.row, last_row);
      const auto gradient =
          load_pack<kPack>(reinterpret_cast<const ELEMENT*>(sums + row * Sums::kRowBytes) + at.pack * kPack);
      step(p.numbers, factors, x.x, widen(gradient.at[0]), m.x, v.x);
      step(p.numbers, factors, x.y, widen(gradient.at[1]), m.y, v.y);
      step(p.numbers, factors, x.z, widen(gradient.at[2]), m.z, v.z);
      step(p.numbers, factors, x.w, widen(gradient.at[3]), m.w, v.w);
      if (at.row <= last_row && at.pack * kPack <= last_column) store(of[k], row * stride + at.pack * kPack);
      at.add(kWorkers);
    }
  }
  __device__ __forceinline__ void store(const Numbers& from, int at) const {
    const auto& [x, m, v] = from;
    *reinterpret_cast<float4*>(parameter + at) = x;
    *reinterpret_cast<float4*>(first_moment + at) = m;
    *reinterpret_cast<float4*>(second_moment + at) = v;
    if constexpr (COPIED) {
      Pack<ELEMENT, kPack> copies;
      copies.word = static_cast<unsigned long long>(pack<ELEMENT>(x.z, x.w)) << 32 | pack<ELEMENT>(x.x, x.y);
      store_pack(copy + at, copies);
    }
  }
};

extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 1)
product_update(const __grid_constant__ ProductUpdateParams p) {
  wait_for_earlier_kernels();
  multiply_with_epilogue<UpdateEpilogue>(p);
}

}  // namespace ridgeline
