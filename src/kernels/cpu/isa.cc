#include "kernels/cpu/isa.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"

namespace ridgeline {

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512_bf16";
    case Isa::amx:
      return "amx";
  }
  return "?";
}

// Clang 14 does not know "f16c" in __builtin_cpu_supports.
static bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

static bool has_dots_of_bf16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kDotsOfBf16 = 1u << 5;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kDotsOfBf16) != 0;
}

// Needs the processor, and an operating system that saves tile registers for processes that request
// it, as this function does.
static bool has_matrix_units() {
#ifdef __x86_64__
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kTilesOfBf16 = 1u << 22, kTiles = 1u << 24;
  if ((edx & kTilesOfBf16) == 0 || (edx & kTiles) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas = {Isa::portable};
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2") && has_f16c() && __builtin_cpu_supports("aes");
  if (avx2) isas.push_back(Isa::avx2);
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd"))
    isas.push_back(Isa::avx512);
  static const bool matrix_units = has_matrix_units();
  if (isas.back() == Isa::avx512 && has_dots_of_bf16()) isas.push_back(Isa::avx512_bf16);
  if (isas.back() == Isa::avx512_bf16 && matrix_units) isas.push_back(Isa::amx);
  return isas;
}

Isa default_isa() {
  const std::vector<Isa> isas = supported_isas();
  const std::string wanted = environment("RIDGELINE_ISA");
  if (wanted.empty()) return isas.back();
  for (Isa isa : isas)
    if (name(isa) == wanted) return isa;
  throw Error(ErrorKind::usage,
              fmt::format("RIDGELINE_ISA={} is not an instruction set of this machine", wanted),
              fmt::format("use one up to {}", name(isas.back())));
}

}  // namespace ridgeline
