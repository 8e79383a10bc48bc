// Instruction sets that the vector code is compiled for; one is chosen when a CPU device is made.
#pragma once

#include <string_view>
#include <vector>

namespace ridgeline {

// `avx512_bf16` is avx512 with dot products of pairs of bf16, `amx` that with tiles of bf16 which
// matrix units multiply: their other kernels are those of avx512.
enum class Isa { portable, avx2, avx512, avx512_bf16, amx };

std::string_view name(Isa isa);

// Those this processor can run, slowest first; `portable` is always among them.
std::vector<Isa> supported_isas();

// The last of supported_isas(), unless the environment variable RIDGELINE_ISA names another one.
Isa default_isa();

}  // namespace ridgeline
