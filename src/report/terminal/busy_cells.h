// The device's busy time beside the wall time, read from records for tables and sentences.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record_values.h"

namespace ridgeline {

// Returns nullopt if the busy time was not recorded or `record` is null.
std::optional<double> busy_ms(const Record* record, std::string_view series);
bool is_host_bound(const Record* record, std::string_view series);
// Returns "True" or "False", or an empty string if the busy time was not recorded.
std::string host_bound_cell(const Record* record, std::string_view series);

// Returns whether any row of the study has a busy time.
bool tells_busy_time(const RecordRefs& records, std::string_view study);

// Names the ok rows that are host-bound: "Host-bound: in 2 of 8 rows ... (flash forward, ...)".
// Returns an empty string if there are none.
std::string host_bound_note(std::span<const Record* const> rows);

}  // namespace ridgeline
