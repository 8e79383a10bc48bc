// The further files that -o and --json ask for.
#pragma once

#include <vector>

#include "base/file_io.h"
#include "measure/record.h"
#include "report/terminal/table.h"
#include "studies/shared_flags.h"

namespace ridgeline {

// Writes them; `table` is the study's own.
void write_output(const OutputFlags& output, const std::vector<Record>& records,
                  const Table& table);

// Throws a usage error for a further file that has an unknown ending or cannot be written. Gives
// what keeps pipes open until they are written.
[[nodiscard]] std::vector<FileDescriptor> check_output(const OutputFlags& output);

}  // namespace ridgeline
