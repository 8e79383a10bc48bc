// Instruction sets of the vector code; one is chosen when a CPU device is created.
#pragma once

#include <string_view>
#include <vector>

namespace ridgeline {

// `avx512_bf16` adds dot products of pairs of bf16 to avx512, `amx` adds matrix units that multiply
// tiles of bf16; their other kernels are those of avx512.
enum class Isa { portable, avx2, avx512, avx512_bf16, amx };

std::string_view name(Isa isa);

// Returns those that this processor can run, slowest first; `portable` is always among them.
std::vector<Isa> supported_isas();

// Returns the last of supported_isas(), or what the environment variable RIDGELINE_ISA names.
Isa default_isa();

// Returns the table of kernels for an instruction set.
template <class Table>
const Table& pick(Isa isa, const Table& portable, const Table& avx2, const Table& avx512) {
  switch (isa) {
    case Isa::portable:
      break;
    case Isa::avx2:
      return avx2;
    case Isa::avx512:
    case Isa::avx512_bf16:
    case Isa::amx:
      return avx512;
  }
  return portable;
}

}  // namespace ridgeline
