// Instruction sets that the vector code is compiled for; one is chosen when a CPU device is made.
#pragma once

#include <string_view>
#include <vector>

namespace ridgeline {

enum class Isa { portable, avx2, avx512 };

std::string_view name(Isa isa);

// Those this processor can run, slowest first; `portable` is always among them.
std::vector<Isa> supported_isas();

// The last of supported_isas(), unless the environment variable RIDGELINE_ISA names another one.
Isa default_isa();

// Whether tiles of bf16 can be multiplied (AMX): that takes the processor, and a system that saves
// their registers for processes that ask, as this function does.
bool has_matrix_units();

}  // namespace ridgeline
