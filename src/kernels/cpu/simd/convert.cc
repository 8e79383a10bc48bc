// Converts storage types to fp32 and back.
#include "kernels/cpu/simd/pointwise.h"
#include "kernels/cpu/simd/vec_math.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

template <class Stored>
void widen(const Stored* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

// Whole vectors, then the tail through a buffer of one vector.
template <Floats (*widen_vector)(const uint16_t*)>
void widen_halves(const uint16_t* from, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(widen_vector(from + i), Wide(), to + i);
  if (i == count) return;
  uint16_t stored[kLanes] = {};
  float widened[kLanes];
  for (int64_t rest = i; rest < count; ++rest) stored[rest - i] = from[rest];
  hn::StoreU(widen_vector(stored), Wide(), widened);
  for (int64_t rest = i; rest < count; ++rest) to[rest] = widened[rest - i];
}

template <void (*narrow_vector)(Floats, uint16_t*)>
void narrow_halves(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) narrow_vector(hn::LoadU(Wide(), from + i), to + i);
  if (i == count) return;
  float rest_values[kLanes] = {};
  uint16_t stored[kLanes];
  for (int64_t rest = i; rest < count; ++rest) rest_values[rest - i] = from[rest];
  narrow_vector(hn::LoadU(Wide(), rest_values), stored);
  for (int64_t rest = i; rest < count; ++rest) to[rest] = stored[rest - i];
}

}  // namespace

void load(DType dtype, const void* source, float* out, int64_t count) {
  switch (dtype) {
    case DType::f32:
    case DType::tf32:
      return widen(static_cast<const float*>(source), out, count);
    case DType::bf16:
      return widen_halves<widen_bf16>(static_cast<const uint16_t*>(source), out, count);
    case DType::f16:
      return widen_halves<widen_f16>(static_cast<const uint16_t*>(source), out, count);
    case DType::i32:
      return widen(static_cast<const int32_t*>(source), out, count);
    case DType::boolean:
      return widen(static_cast<const uint8_t*>(source), out, count);
  }
}

void store(DType dtype, const float* source, void* out, int64_t count) {
  switch (dtype) {
    case DType::f32:
    case DType::tf32:
      return widen(source, static_cast<float*>(out), count);
    case DType::bf16:
      return narrow_halves<narrow_bf16>(source, static_cast<uint16_t*>(out), count);
    case DType::f16:
      return narrow_halves<narrow_f16>(source, static_cast<uint16_t*>(out), count);
    case DType::i32:
      for (int64_t i = 0; i < count; ++i)
        static_cast<int32_t*>(out)[i] = static_cast<int32_t>(source[i]);
      return;
    case DType::boolean:
      for (int64_t i = 0; i < count; ++i) static_cast<uint8_t*>(out)[i] = source[i] != 0;
      return;
  }
}

}  // namespace ridgeline::RIDGELINE_ISA
