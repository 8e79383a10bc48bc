// The vector type of this instruction set, 2^x, and conversions of bf16 and fp16.
#pragma once

#include <cstdint>

#include "hwy/highway.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<float>;
using WideInts = hn::RebindToSigned<Wide>;
using WideBits = hn::RebindToUnsigned<Wide>;
using Floats = hn::Vec<Wide>;

inline constexpr int64_t kLanes = hn::MaxLanes(Wide());

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Returns the larger one, or y if either is NaN, as the max instruction of x86 does.
HWY_INLINE Floats larger_or_second(Floats x, Floats y) {
  if constexpr (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128)
    return hn::IfThenElse(hn::Gt(x, y), x, y);
  return hn::Max(x, y);
}

// Returns the larger one, or NaN (all bits set) if either is NaN.
HWY_INLINE Floats larger(Floats x, Floats y) {
  return hn::Or(larger_or_second(x, y), hn::VecFromMask(Wide(), hn::IsNaN(x)));
}

// 2^x for x <= 127 within 1.5e-7. Results below 2^-100 become 2^-100: negligible beside a largest
// weight of 1, and their products avoid the slow subnormal range. NaN stays NaN.
HWY_INLINE Floats exp2_floats(Floats x) {
  const Wide wide;
  // Adding 1.5 * 2^23 leaves round(x) in the low bits of the sum; 127 is the bias of the exponent.
  const Floats shift = hn::Set(wide, 12582912.0f + 127);
  x = larger_or_second(hn::Set(wide, -100.0f), x);
  const Floats shifted = hn::Add(x, shift);
  const Floats f = hn::Sub(x, hn::Sub(shifted, shift));
  // Minimax polynomial of 2^f on [-0.5, 0.5], relative error 7.5e-8.
  Floats p = hn::Set(wide, 1.327647192e-03f);
  p = hn::MulAdd(p, f, hn::Set(wide, 9.675541334e-03f));
  p = hn::MulAdd(p, f, hn::Set(wide, 5.550713274e-02f));
  p = hn::MulAdd(p, f, hn::Set(wide, 2.402211972e-01f));
  p = hn::MulAdd(p, f, hn::Set(wide, 6.931469671e-01f));
  p = hn::MulAdd(p, f, hn::Set(wide, 1.000000072e+00f));
  // A product, since adding exponents would turn some NaNs into numbers.
  return hn::Mul(p, hn::BitCast(wide, hn::ShiftLeft<23>(hn::BitCast(WideBits(), shifted))));
}

HWY_INLINE Floats widen_bf16(const uint16_t* from) {
  const hn::Rebind<uint16_t, Wide> halves;
  const auto bits = hn::PromoteTo(WideBits(), hn::LoadU(halves, from));
  return hn::BitCast(Wide(), hn::ShiftLeft<16>(bits));
}

HWY_INLINE void narrow_bf16(Floats value, uint16_t* to) {
  const WideBits wide_bits;
  const hn::Rebind<uint16_t, Wide> halves;
  const auto bits = hn::BitCast(wide_bits, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide_bits, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(wide_bits, 0x7fffu)));
  const auto quiet_nan = hn::Or(bits, hn::Set(wide_bits, 0x400000u));
  const auto is_nan = hn::RebindMask(wide_bits, hn::IsNaN(value));
  const auto kept = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet_nan, rounded));
  // Values fit 16 bits, so the saturating demotion from signed 32 bits keeps them.
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(WideInts(), kept)), halves, to);
}

// Only F16C converts fp16 in hardware; Highway's emulation truncates, so older machines do it here.
inline constexpr bool kHasHalfInstructions = HWY_TARGET <= HWY_AVX2;

HWY_INLINE Floats widen_f16(const uint16_t* from) {
  if constexpr (kHasHalfInstructions) {
    const hn::Rebind<hwy::float16_t, Wide> halves;
    return hn::PromoteTo(Wide(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
  } else {
    const WideBits wide_bits;
    const hn::Rebind<uint16_t, Wide> halves;
    const auto bits = hn::PromoteTo(wide_bits, hn::LoadU(halves, from));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(wide_bits, 0x8000u)));
    const auto rest = hn::ShiftLeft<13>(hn::And(bits, hn::Set(wide_bits, 0x7fffu)));
    // Scaling by 2^112 rebiases the exponent and normalises subnormals in one multiplication.
    const auto finite =
        hn::BitCast(wide_bits, hn::Mul(hn::BitCast(Wide(), rest), hn::Set(Wide(), 0x1p112f)));
    const auto special = hn::Or(rest, hn::Set(wide_bits, 0x7f800000u));
    const auto is_finite = hn::Lt(rest, hn::Set(wide_bits, 0x0f800000u));
    return hn::BitCast(Wide(), hn::Or(sign, hn::IfThenElse(is_finite, finite, special)));
  }
}

HWY_INLINE void narrow_f16(Floats value, uint16_t* to) {
  if constexpr (kHasHalfInstructions) {
    const hn::Rebind<hwy::float16_t, Wide> halves;
    hn::StoreU(hn::DemoteTo(halves, value), halves, reinterpret_cast<hwy::float16_t*>(to));
  } else {
    const WideBits wide_bits;
    const hn::Rebind<uint16_t, Wide> halves;
    const auto constant = [&](uint32_t bits) { return hn::Set(wide_bits, bits); };
    const auto bits = hn::BitCast(wide_bits, value);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), constant(0x8000u));
    const auto rest = hn::And(bits, constant(0x7fffffffu));
    const auto odd = hn::And(hn::ShiftRight<13>(rest), constant(1u));
    auto result = hn::ShiftRight<13>(hn::Add(hn::Add(rest, odd), constant(0xfffu - 0x38000000u)));
    // Below the smallest normal, the fp32 addition does the rounding.
    const auto small =
        hn::Sub(hn::BitCast(wide_bits, hn::Add(hn::BitCast(Wide(), rest), hn::Set(Wide(), 0.5f))),
                constant(0x3f000000u));
    result = hn::IfThenElse(hn::Lt(rest, constant(0x38800000u)), small, result);
    result = hn::IfThenElse(hn::Lt(rest, constant(0x477ff000u)), result, constant(0x7c00u));
    result = hn::IfThenElse(hn::Gt(rest, constant(0x7f800000u)), constant(0x7e00u), result);
    const auto signed_result = hn::BitCast(WideInts(), hn::Or(sign, result));
    hn::StoreU(hn::DemoteTo(halves, signed_result), halves, to);
  }
}

}  // namespace
}  // namespace ridgeline::RIDGELINE_ISA
