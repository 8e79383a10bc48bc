// A pointwise op, or a copy with a cast, over operands of any dtype and strides.
//
// Constants: OP, ARITY, IN0 IN1 IN2 OUT (element types), KIND0 KIND1 KIND2 (how an operand is read), PACK (elements of
// an item), AXES (of the walk), INDEX (type that counts items), TAIL (1: the last item is not full).
#include "elements.cuh"
#include "functions.cuh"
#include "operators.cuh"
#include "params.h"

namespace ridgeline {

constexpr int kItems = 4;  // per thread, so that their loads are in flight together
constexpr int kThreads = 256;

// How an operand is read.
enum Kind {
  kPacked,  // PACK adjacent elements; with PACK 1 any stride
  kSpread,  // one element for the whole item
  kValue,   // a constant, in the parameters
};

template <class Stored, Kind kKind>
struct Operand {
  Pack<Stored, kKind == kPacked ? PACK : 1> pack;

  __device__ __forceinline__ void load(const WalkOperand& from, int64 offset) {
    if constexpr (kKind == kValue) {
      pack.at[0] = *reinterpret_cast<const Stored*>(&from.bits);
    } else {
      pack = load_pack < kKind == kPacked ? PACK
                                          : 1 > (static_cast<const Stored*>(from.data) + offset);
    }
  }
  // Loads the first elements of an item that is not full.
  __device__ __forceinline__ void load_some(const WalkOperand& from, int64 offset, int count) {
    if constexpr (kKind == kPacked) {
      for (int i = 0; i < PACK; ++i)
        if (i < count) pack.at[i] = static_cast<const Stored*>(from.data)[offset + i];
    } else {
      load(from, offset);
    }
  }
  __device__ __forceinline__ auto at(int i) const {
    return widen(pack.at[kKind == kPacked ? i : 0]);
  }
};

struct Item {
  Operand<IN0, KIND0> x;
#if ARITY > 1
  Operand<IN1, KIND1> y;
#endif
#if ARITY > 2
  Operand<IN2, KIND2> z;
#endif

  __device__ __forceinline__ Pack<OUT, PACK> compute() const {
    Pack<OUT, PACK> result;
#pragma unroll
    for (int i = 0; i < PACK; ++i)
#if ARITY == 1
      result.at[i] = Narrow<OUT>::from(OP(x.at(i)));
#elif ARITY == 2
      result.at[i] = Narrow<OUT>::from(OP(x.at(i), y.at(i)));
#else
      result.at[i] = Narrow<OUT>::from(OP(x.at(i), y.at(i), z.at(i)));
#endif
    return result;
  }
};

// Offsets of all operands for one item.
struct Place {
  int64 at[ARITY + 1];
};

__device__ __forceinline__ Place place_of(const PointwiseParams& p, INDEX item) {
  Place place = {};
#pragma unroll
  for (int axis = AXES - 1; axis >= 0; --axis) {
    INDEX along = item;
    if (axis > 0) {
      const INDEX size = static_cast<INDEX>(p.sizes[axis]);
      item /= size;
      along -= item * size;
    }
#pragma unroll
    for (int t = 0; t < ARITY; ++t)
      place.at[t] += static_cast<int64>(along) * p.operands[t].steps[axis];
    place.at[ARITY] += static_cast<int64>(along) * p.operands[3].steps[axis];
  }
  return place;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    pointwise(const __grid_constant__ PointwiseParams p) {
  wait_for_earlier_kernels();
  const INDEX items = static_cast<INDEX>(p.items);
  const INDEX first = static_cast<INDEX>(blockIdx.x) * (kThreads * kItems) + threadIdx.x;
  Item item[kItems];
  Place place[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const INDEX index = first + i * kThreads;
    if (index >= items) continue;
    place[i] = place_of(p, index);
    const bool full = !TAIL || index + 1 < items;
    if (full) {
      item[i].x.load(p.operands[0], place[i].at[0]);
#if ARITY > 1
      item[i].y.load(p.operands[1], place[i].at[1]);
#endif
#if ARITY > 2
      item[i].z.load(p.operands[2], place[i].at[2]);
#endif
    } else {
      item[i].x.load_some(p.operands[0], place[i].at[0], p.tail);
#if ARITY > 1
      item[i].y.load_some(p.operands[1], place[i].at[1], p.tail);
#endif
#if ARITY > 2
      item[i].z.load_some(p.operands[2], place[i].at[2], p.tail);
#endif
    }
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const INDEX index = first + i * kThreads;
    if (index >= items) continue;
    OUT* to = static_cast<OUT*>(p.operands[3].data) + place[i].at[ARITY];
    const Pack<OUT, PACK> result = item[i].compute();
    const bool full = !TAIL || index + 1 < items;
    if (full) {
      store_pack(to, result);
    } else {
      for (int j = 0; j < PACK; ++j)
        if (j < p.tail) to[j] = result.at[j];
    }
  }
}

}  // namespace ridgeline
