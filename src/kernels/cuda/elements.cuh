// Element types of tensors on the device: storage, conversion to fp32 and back, packs.
#pragma once

namespace ridgeline {

using int64 = long long;

// Every kernel calls this before it accesses memory. From Hopper on a kernel may start while the one before it still
// runs (programmatic dependent launch): this waits for the results of that one, then lets the next kernel start.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

struct bf16 {
  unsigned short bits;
};
struct fp16 {
  unsigned short bits;
};
struct boolean {
  unsigned char bits;
};

// The type that arithmetic uses: fp32 for all floats, int for the rest.
__device__ __forceinline__ float widen(float x) {
  return x;
}
__device__ __forceinline__ float widen(bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
__device__ __forceinline__ float widen(fp16 x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
__device__ __forceinline__ int widen(int x) {
  return x;
}
__device__ __forceinline__ int widen(boolean x) {
  return x.bits != 0;
}

template <class Stored>
struct Narrow;
template <>
struct Narrow<float> {
  template <class Wide>
  static __device__ __forceinline__ float from(Wide x) {
    return static_cast<float>(x);
  }
};
template <>
struct Narrow<bf16> {
  template <class Wide>
  static __device__ __forceinline__ bf16 from(Wide x) {
    bf16 stored;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(stored.bits) : "f"(static_cast<float>(x)));
    return stored;
  }
};
template <>
struct Narrow<fp16> {
  template <class Wide>
  static __device__ __forceinline__ fp16 from(Wide x) {
    fp16 stored;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(stored.bits) : "f"(static_cast<float>(x)));
    return stored;
  }
};
template <>
struct Narrow<int> {
  template <class Wide>
  static __device__ __forceinline__ int from(Wide x) {
    return static_cast<int>(x);
  }
};
template <>
struct Narrow<boolean> {
  template <class Wide>
  static __device__ __forceinline__ boolean from(Wide x) {
    return {static_cast<unsigned char>(x != Wide(0))};
  }
};

template <int kBytes>
struct Word;
template <>
struct Word<1> {
  using Type = unsigned char;
};
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned;
};
template <>
struct Word<8> {
  using Type = unsigned long long;
};
template <>
struct Word<16> {
  using Type = uint4;
};

// Adjacent elements that one access of up to 16 bytes loads or stores.
template <class Stored, int kCount>
union Pack {
  typename Word<sizeof(Stored) * kCount>::Type word;
  Stored at[kCount];
};

template <int kCount, class Stored>
__device__ __forceinline__ Pack<Stored, kCount> load_pack(const Stored* from) {
  Pack<Stored, kCount> pack;
  pack.word = *reinterpret_cast<const decltype(pack.word)*>(from);
  return pack;
}
template <class Stored, int kCount>
__device__ __forceinline__ void store_pack(Stored* to, const Pack<Stored, kCount>& pack) {
  *reinterpret_cast<decltype(Pack<Stored, kCount>::word)*>(to) = pack.word;
}

// Returns the larger number, or NaN if either is NaN.
__device__ __forceinline__ float larger(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ __forceinline__ float infinity() {
  return __int_as_float(0x7f800000);
}

}  // namespace ridgeline
