// What generated C++ stands on: storage types, and fp32 functions that vectorise in plain loops.
#include "codegen/emit.h"
#include "plan/op_text.h"

namespace ridgeline {

const std::string& host_preamble() {
  static const std::string text = R"(typedef long long int64;
typedef unsigned short bf16;
struct fp16 { unsigned short bits; };
typedef unsigned char boolean;

struct Operand { void* data; int64 column; const int64* rows; };

static inline unsigned bits_of(float x) { return __builtin_bit_cast(unsigned, x); }
static inline float float_of(unsigned x) { return __builtin_bit_cast(float, x); }

static inline float widen(float x) { return x; }
static inline int widen(int x) { return x; }
static inline int widen(boolean x) { return x != 0; }
static inline float widen(bf16 x) { return float_of((unsigned)x << 16); }
static inline float widen(fp16 x) {
  const unsigned sign = (x.bits & 0x8000u) << 16, rest = (x.bits & 0x7fffu) << 13;
  const unsigned finite = bits_of(float_of(rest) * 0x1p112f);
  return float_of(sign | (rest < 0x0f800000u ? finite : rest | 0x7f800000u));
}

// Rounding to nearest even, in integers.
static inline bf16 narrow_bf16(float x) {
  const unsigned bits = bits_of(x);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (bf16)(x != x ? (bits >> 16) | 0x40u : rounded);
}
static inline fp16 narrow_fp16(float x) {
  const unsigned bits = bits_of(x), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
  const unsigned normal = (rest + 0xfffu + ((rest >> 13) & 1u) - 0x38000000u) >> 13;
  const unsigned small = bits_of(float_of(rest) + 0.5f) - 0x3f000000u;
  unsigned result = rest < 0x38800000u ? small : normal;
  result = rest < 0x477ff000u ? result : 0x7c00u;
  result = rest > 0x7f800000u ? 0x7e00u : result;
  return {(unsigned short)(sign | result)};
}
static inline float round_bf16(float x) { return widen(narrow_bf16(x)); }
static inline float round_fp16(float x) { return widen(narrow_fp16(x)); }

static inline void put(float* to, float x) { *to = x; }
static inline void put(int* to, int x) { *to = x; }
static inline void put(boolean* to, int x) { *to = (boolean)(x != 0); }
static inline void put(bf16* to, float x) { *to = narrow_bf16(x); }
static inline void put(fp16* to, float x) { *to = narrow_fp16(x); }

// One rounding where the processor has it; a plain loop is not to call a library for it.
static inline float fused(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
static inline float larger(float a, float b) { return a > b || a != a ? a : b; }
static inline int to_int(float x) { return (int)x; }

// Folds in 32 lanes that the text spells out. The reduction of a loop would get as many lanes as fit
// the widths of all that the loop reads, and a sum would have other bits in another kernel.
typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
struct Sum {
  static constexpr float kNone = 0;
  static inline Lanes join(Lanes a, Lanes b) { return a + b; }
  static inline float join(float a, float b) { return a + b; }
};
struct Max {
  static constexpr float kNone = -__builtin_inff();
  static inline Lanes join(Lanes a, Lanes b) { return (a > b) | (a != a) ? a : b; }
  static inline float join(float a, float b) { return larger(a, b); }
};
template <class How>
static inline void take(Lanes* parts, const float* items) {
  for (int part = 0; part < 4; ++part)
    parts[part] = How::join(*(const Lanes*)(items + 8 * part), parts[part]);
}
template <class How>
static inline float fold(const float* items, int64 count) {
  constexpr float none = How::kNone;
  const Lanes empty = {none, none, none, none, none, none, none, none};
  Lanes parts[4] = {empty, empty, empty, empty};
  int64 done = 0;
  for (; done + 32 <= count; done += 32) take<How>(parts, items + done);
  if (done < count) {
    float rest[32];
    for (int i = 0; i < 32; ++i) rest[i] = done + i < count ? items[done + i] : none;
    take<How>(parts, rest);
  }
  const Lanes all = How::join(How::join(parts[0], parts[2]), How::join(parts[1], parts[3]));
  return How::join(How::join(How::join(all[0], all[4]), How::join(all[2], all[6])),
                   How::join(How::join(all[1], all[5]), How::join(all[3], all[7])));
}

// e^x = 2^n e^f with |f| <= ln(2) / 2, the latter by its series. 2^n comes in two factors, so that
// the ends of the range are right too.
static inline float exponential(float x) {
  x = x < -110.0f ? -110.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float n = __builtin_rintf(x * 1.44269504f);
  const float f = fused(n, -1.42860677e-6f, fused(n, -0.693145752f, x));
  float p = 1.0f / 5040;
  p = fused(p, f, 1.0f / 720);
  p = fused(p, f, 1.0f / 120);
  p = fused(p, f, 1.0f / 24);
  p = fused(p, f, 1.0f / 6);
  p = fused(p, f, 0.5f);
  p = fused(p, f, 1.0f);
  p = fused(p, f, 1.0f);
  const int power = (int)n, half = power >> 1;
  const float low = float_of((unsigned)(half + 127) << 23);
  const float high = float_of((unsigned)(power - half + 127) << 23);
  return p * low * high;
}
// x = 2^n m with m near 1; ln m = 2 artanh((m - 1) / (m + 1)), by its series.
static inline float logarithm(float x) {
  const bool tiny = x < 0x1p-126f;
  const int bits = (int)bits_of(tiny ? x * 0x1p23f : x);
  const int power = (bits - 0x3f3504f3) >> 23;
  const float m = float_of((unsigned)(bits - power * (1 << 23)));
  const float s = (m - 1.0f) / (m + 1.0f), q = s * s;
  float p = 2.0f / 11;
  p = fused(p, q, 2.0f / 9);
  p = fused(p, q, 2.0f / 7);
  p = fused(p, q, 2.0f / 5);
  p = fused(p, q, 2.0f / 3);
  p = fused(p, q, 2.0f);
  const float n = (float)(tiny ? power - 23 : power);
  float result = fused(n, 0.693145752f, fused(p, s, n * 1.42860677e-6f));
  result = x == 0.0f ? -__builtin_inff() : result;
  result = x < 0.0f ? __builtin_nanf("") : result;
  return x == __builtin_inff() || x != x ? x : result;
}
// The series near 0, where 1 - 2 / (e^2x + 1) would cancel.
static inline float hyperbolic_tangent(float x) {
  const float size = __builtin_fabsf(x), q = x * x;
  const float large = 1.0f - 2.0f / (exponential(2.0f * size) + 1.0f);
  float p = 62.0f / 2835;
  p = fused(p, q, -17.0f / 315);
  p = fused(p, q, 2.0f / 15);
  p = fused(p, q, -1.0f / 3);
  const float small = fused(size, q * p, size);
  return __builtin_copysignf(size < 0.25f ? small : large, x);
}
)" + pointwise_functions(KernelLanguage::host);
  return text;
}

}  // namespace ridgeline
