// Records as JSON lines, which are read back exactly as written.
#pragma once

#include <span>
#include <string>

#include "measure/record.h"

namespace ridgeline {

// JSON has no NaN or infinity: such numbers become null, and null is read back as NaN.
Json to_json(const Record& record);

// Ignores unknown keys and leaves missing optional fields at their defaults. Throws a usage error
// for another schema version, and one that names a field that is missing, of the wrong type or out
// of range.
Record record_from_json(const Json& json);

// One line with its newline. Invalid UTF-8 bytes are replaced.
std::string to_line(const Record& record);
std::string to_lines(std::span<const Record> records);
// One array, for programs that cannot read JSON lines.
std::string to_array(std::span<const Record> records);

}  // namespace ridgeline
