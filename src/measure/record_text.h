// How the rows of a study are named in sentences and titles: one way for all commands.
//
//   fmt::print("{} {}{}", record.implementation, phase, values_text(record.workload));
//   // flash forward batch_size=8 seq_len=256 causal=False dtype=fp32
#pragma once

#include <string>

#include "measure/record.h"

namespace ridgeline {

// A value of a workload or of settings, safe to show: strings bare, True and False as in the CSV.
std::string value_text(const Json& value);

// " batch_size=8 seq_len=256", each with a space before it; of very many, the first.
std::string values_text(const Json& object);

// "attention flash cpu batch_size=8 seq_len=256 isa=avx512 threads=2": all that identifies a row.
std::string row_text(const Record& record);

}  // namespace ridgeline
