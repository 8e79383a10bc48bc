// Storage types to fp32 and back; plain loops that the compiler vectorises, except fp16.
#include "base/float16.h"
#include "kernels/cpu/simd/pointwise.h"
#include "kernels/cpu/simd/vectors.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

template <class Stored>
void widen(const Stored* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

void load_bf16(const uint16_t* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = bf16_to_float(from[i]);
}

void store_bf16(const float* from, uint16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = float_to_bf16(from[i]);
}

// Whole vectors at once where the processor converts fp16 itself; one by one at the end.
void load_f16(const uint16_t* from, float* to, int64_t count) {
  int64_t i = 0;
#ifdef __F16C__
  const hn::Rebind<hwy::float16_t, Wide> half;
  const auto* halves = reinterpret_cast<const hwy::float16_t*>(from);
  for (; i + lanes() <= count; i += lanes())
    hn::StoreU(hn::PromoteTo(Wide(), hn::LoadU(half, halves + i)), Wide(), to + i);
#endif
  for (; i < count; ++i) to[i] = f16_to_float(from[i]);
}

void store_f16(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
#ifdef __F16C__
  const hn::Rebind<hwy::float16_t, Wide> half;
  auto* halves = reinterpret_cast<hwy::float16_t*>(to);
  for (; i + lanes() <= count; i += lanes())
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(Wide(), from + i)), half, halves + i);
#endif
  for (; i < count; ++i) to[i] = float_to_f16(from[i]);
}

}  // namespace

void load(DType dtype, const void* source, float* out, int64_t count) {
  switch (dtype) {
    case DType::f32:
      return widen(static_cast<const float*>(source), out, count);
    case DType::bf16:
      return load_bf16(static_cast<const uint16_t*>(source), out, count);
    case DType::f16:
      return load_f16(static_cast<const uint16_t*>(source), out, count);
    case DType::i32:
      return widen(static_cast<const int32_t*>(source), out, count);
    case DType::boolean:
      return widen(static_cast<const uint8_t*>(source), out, count);
  }
}

void store(DType dtype, const float* source, void* out, int64_t count) {
  switch (dtype) {
    case DType::f32:
      return widen(source, static_cast<float*>(out), count);
    case DType::bf16:
      return store_bf16(source, static_cast<uint16_t*>(out), count);
    case DType::f16:
      return store_f16(source, static_cast<uint16_t*>(out), count);
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
