// Records as JSON: one line each, read back exactly as written.
#pragma once

#include <string>

#include "measure/record.h"

namespace ridgeline {

// JSON has no NaN or infinity: such numbers become null, and null is read back as NaN.
Json to_json(const Record& record);

// Ignores keys it does not know and leaves optional ones at their defaults. Throws a usage error
// that names the field for what is missing, of the wrong type, out of range or of another schema
// version.
Record record_from_json(const Json& json);

// One line with its newline. Text that is not UTF-8 has its bad bytes replaced.
std::string to_line(const Record& record);

}  // namespace ridgeline
