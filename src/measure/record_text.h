// Names the rows of a study in sentences and titles, the same way in all commands.
//
//   fmt::print("{} {}{}", record.implementation, phase, values_text(record.workload));
//   // flash forward batch_size=8 seq_len=256 causal=False dtype=fp32
#pragma once

#include <string>

#include "measure/record.h"

namespace ridgeline {

// A value of a workload or of settings, printable: strings unquoted, booleans as True and False.
std::string value_text(const Json& value);

// " batch_size=8 seq_len=256", each with a leading space; truncated if very long.
std::string values_text(const Json& object);

// "attention flash cpu batch_size=8 seq_len=256 isa=avx512 threads=2": all that identifies a row.
std::string row_text(const Record& record);

}  // namespace ridgeline
